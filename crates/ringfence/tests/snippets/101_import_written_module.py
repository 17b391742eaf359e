# expect: ok
import importlib
import os
import runpy
import sys
from pathlib import Path

package = Path("shapes")
package.mkdir()
(package / "__init__.py").write_text("from .square import area\n__all__ = ['area']\n")
(package / "square.py").write_text("def area(side):\n    return side * side\n")
Path("helper.py").write_text("VALUE = 41\n\ndef answer():\n    return VALUE + 1\n")
Path("script.py").write_text("result = [n for n in range(3)]\nprint('running as', __name__)\n")

sys.path.insert(0, os.getcwd())
import helper
import shapes

print(helper.answer(), shapes.area(5), shapes.square.__name__)
helper.VALUE = 99
helper = importlib.reload(helper)
print(helper.VALUE)
print(runpy.run_path("script.py")["result"])
print(os.path.basename(os.path.dirname(shapes.__file__)))
