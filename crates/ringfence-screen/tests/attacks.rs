//! Every way out of an interpreter that the attack list names, each beside what people really write that looks like it.

#![allow(clippy::disallowed_methods)]

use ringfence_screen::{ScreenVerdict, screen};
use ringfence_spec::CodePreset::{self, Data, Open, Standard, Strict};

/// A program, the rule it breaks, what breaks it; and a program beside it that breaks none.
struct Row {
    attack: &'static str,
    rule: &'static str,
    subject: &'static str,
    twin: &'static str,
}

const fn row(
    attack: &'static str,
    rule: &'static str,
    subject: &'static str,
    twin: &'static str,
) -> Row {
    Row { attack, rule, subject, twin }
}

/// Under the preset `standard`.
const ROWS: &[Row] = &[
    // Code from text.
    row("eval('1')", "call_not_allowed", "eval", "s = 'eval('"),
    row("exec('x = 1')", "call_not_allowed", "exec", "executed = 1; print(executed)"),
    row("compile('1', '', 'eval')", "call_not_allowed", "compile", "import re; re.compile('a')"),
    row("__import__('os')", "name_not_allowed", "__import__", "important = 1; print(important)"),
    row("open('/etc/passwd')", "call_not_allowed", "open", "open_count = 1; print(open_count)"),
    row("input()", "call_not_allowed", "input", "def f(input): return input * 2"),
    row("f = open", "name_not_allowed", "open", "def f(door): return door.open()"),
    // Through another name.
    row("e = eval\ne('1')", "name_not_allowed", "eval", "e = len\ne('1')"),
    row("(e := eval)('1')", "name_not_allowed", "eval", "(e := len)('1')"),
    row("def f(e=eval): e('1')", "name_not_allowed", "eval", "def f(e=len): e('1')"),
    row("f = lambda e=eval: e('1')", "name_not_allowed", "eval", "f = lambda eval: eval('1')"),
    row("@eval\ndef f(): pass", "name_not_allowed", "eval", "@staticmethod\ndef f(): pass"),
    row("@exec\nclass A: pass", "name_not_allowed", "exec", "@print\nclass A: pass"),
    row("[e('1') for e in [eval]]", "name_not_allowed", "eval", "[eval for eval in [1]]"),
    row("d = {'e': eval}", "name_not_allowed", "eval", "d = {'eval': 1}"),
    row("list(map(eval, ['1']))", "name_not_allowed", "eval", "list(map(len, ['1']))"),
    row("match eval:\n  case e: e('1')", "name_not_allowed", "eval", "match 1:\n  case e: e"),
    row("print(f'{eval(\"1\")}')", "call_not_allowed", "eval", "print(f'eval(1)')"),
    row("f'{1:{eval(\"2\")}}'", "call_not_allowed", "eval", "f'{1:{2}}'"),
    row("def f(x: eval('1')): pass", "call_not_allowed", "eval", "def f(x: int): pass"),
    row("x: eval('1') = 2", "call_not_allowed", "eval", "x: 'eval' = 2"),
    row("class A(eval('object')): pass", "call_not_allowed", "eval", "class A(object): pass"),
    row(
        "import json\njson.loads = eval",
        "name_not_allowed",
        "eval",
        "import json\njson.loads('1')",
    ),
    row("ｅval('1')", "call_not_allowed", "eval", "größe = 1; print(größe)"),
    row("𝓮𝔁𝓮𝓬('1')", "call_not_allowed", "exec", "π = 3.14; print(π)"),
    row("(lambda: 0).__𝘤lass__", "attribute_not_allowed", "__class__", "(lambda: 0)()"),
    row(
        "print(eval)",
        "name_not_allowed",
        "eval",
        "class M:\n  def eval(self): return self\nM().eval()",
    ),
    row("for e in (exec,): e('1')", "name_not_allowed", "exec", "for e in (1,): print(e)"),
    row("with eval('x') as y: pass", "call_not_allowed", "eval", "with x as y: print(y)"),
    row("return_ = vars()", "call_not_allowed", "vars", "vars = {'a': 1}\nprint(vars)"),
    row("globals()['eval']", "call_not_allowed", "globals", "d = {'globals': 1}; d['globals']"),
    row("locals()", "call_not_allowed", "locals", "local = 1; print(local)"),
    row("breakpoint()", "call_not_allowed", "breakpoint", "breakpoints = [1]; print(breakpoints)"),
    row("help(int)", "call_not_allowed", "help", "print(int.__doc__)"),
    row("license()", "call_not_allowed", "license", "def f(license): return license"),
    row("copyright._Printer__filenames", "name_not_allowed", "copyright", "x = {'copyright': 1}"),
    row(
        "credits._Printer__filenames",
        "attribute_not_allowed",
        "_Printer__filenames",
        "credits = 3\nprint(credits)",
    ),
    // A name of the program's own hides a builtin only where nothing can lift it again.
    row("if 0: eval = 1\neval('1')", "call_not_allowed", "eval", "eval = len\neval('1')"),
    row(
        "def f(): return eval('1')\nf()\ndef eval(x): pass",
        "call_not_allowed",
        "eval",
        "def eval(x): pass\ndef f(): return eval('1')",
    ),
    row("@d\ndef eval(x): eval('1')", "call_not_allowed", "eval", "def eval(x): return eval(x)"),
    row("eval = eval", "name_not_allowed", "eval", "def f():\n  eval = 1\n  return eval"),
    row("open = 1\ndel open\nopen('x')", "name_not_allowed", "open", "def f(open):\n  del open"),
    row(
        "try: pass\nexcept E as eval: pass",
        "name_not_allowed",
        "eval",
        "def f():\n  try: pass\n  except E as input: print(input)",
    ),
    row(
        "def f():\n  global eval\n  eval('1')",
        "call_not_allowed",
        "eval",
        "def f():\n  global n\n  n = 1",
    ),
    row(
        "class A:\n  eval = 1\n  def f(self): return eval('1')",
        "call_not_allowed",
        "eval",
        "class A:\n  eval = 1\n  def f(self): return self.eval",
    ),
    row(
        "def f():\n  eval = 1\n  class A:\n    x = eval('1')\n    eval = x",
        "call_not_allowed",
        "eval",
        "def f():\n  eval = len\n  class A:\n    x = eval('1')",
    ),
    row(
        "for eval in []: pass\neval('1')",
        "call_not_allowed",
        "eval",
        "for eval in [len]: eval('1')",
    ),
    // Builtins by other doors.
    row("import builtins", "import_not_allowed", "builtins", "import math"),
    row(
        "from builtins import eval as e",
        "import_not_allowed",
        "builtins",
        "from math import sin as s",
    ),
    row(
        "__builtins__['eval']('1')",
        "name_not_allowed",
        "__builtins__",
        "built = {'eval': 1}; built['eval']",
    ),
    row("__builtins__.eval('1')", "name_not_allowed", "__builtins__", "print(__name__)"),
    row("print.__self__.eval('1')", "attribute_not_allowed", "__self__", "print('self')"),
    row(
        "__loader__.load_module('os')",
        "name_not_allowed",
        "__loader__",
        "loader = 1; print(loader)",
    ),
    row("__spec__.loader", "name_not_allowed", "__spec__", "spec = 1; print(spec)"),
    row(
        "__build_class__",
        "name_not_allowed",
        "__build_class__",
        "__version__ = '1'\nprint(__version__)",
    ),
    // Classes from calls.
    row("type('X', (object,), {})", "dynamic_class", "type", "type(1)"),
    row("type(*args)", "dynamic_class", "type", "print(type(1).__name__)"),
    row("t = type\nt('X', (), {})", "name_not_allowed", "type", "isinstance(int, type)"),
    row("map(type, ['X'], [()], [{}])", "name_not_allowed", "type", "map(lambda x: type(x), [1])"),
    row(
        "type(int)('X', (), {})",
        "dynamic_class",
        "type(…)(…)",
        "class V:\n  def f(self): return type(self)(1, 2, 3)",
    ),
    row("class A(metaclass=M): pass", "metaclass", "metaclass=", "class A(B): pass"),
    row("class A(**{'metaclass': M}): pass", "metaclass", "**", "class A(B, total=False): pass"),
    row(
        "class M(type): pass",
        "metaclass",
        "type",
        "def f(t: type, u: type[int]) -> type: return t",
    ),
    row(
        "import abc\nclass M(abc.ABCMeta): pass",
        "metaclass",
        "ABCMeta",
        "from abc import ABC, abstractmethod\nclass A(ABC):\n  @abstractmethod\n  def f(self): ...",
    ),
    row(
        "from dataclasses import make_dataclass",
        "module_member_not_allowed",
        "dataclasses.make_dataclass",
        "from dataclasses import dataclass, field",
    ),
    row(
        "class A:\n  def __init_subclass__(cls): pass",
        "special_method_not_allowed",
        "__init_subclass__",
        "class A:\n  def __init__(self): super().__init__()",
    ),
    row(
        "class A:\n  def __class_getitem__(cls, k): pass",
        "special_method_not_allowed",
        "__class_getitem__",
        "class A:\n  def __getitem__(self, k): pass",
    ),
    row(
        "class A:\n  def __get__(self, o, t=None): pass",
        "descriptor_method",
        "__get__",
        "class A:\n  @property\n  def get(self): pass",
    ),
    row(
        "class A:\n  __set__ = lambda s, o, v: 0",
        "descriptor_method",
        "__set__",
        "class A:\n  __slots__ = ('set',)\n  __hash__ = None",
    ),
    row(
        "class A:\n  def __set_name__(self, o, n): pass",
        "descriptor_method",
        "__set_name__",
        "class A:\n  def set_name(self, n): pass",
    ),
    row(
        "class A:\n  def __reduce__(self): return (print, ())",
        "special_method_not_allowed",
        "__reduce__",
        "class A:\n  def __copy__(self): return A()",
    ),
    row(
        "class A: pass\nA.__get__ = print",
        "attribute_not_allowed",
        "__get__",
        "class A: pass\nA.get = print",
    ),
    // Reflection.
    row("().__class__", "attribute_not_allowed", "__class__", "type(()).__name__"),
    row("int.__base__", "attribute_not_allowed", "__base__", "int('10', base=2)"),
    row(
        "().__class__.__bases__[0].__subclasses__()",
        "attribute_not_allowed",
        "__subclasses__",
        "issubclass(bool, int)",
    ),
    row("int.__mro__", "attribute_not_allowed", "__mro__", "x = {'__mro__': 1}"),
    row("int.mro()", "attribute_not_allowed", "mro", "micro = 1; print(micro)"),
    row("f.__globals__", "attribute_not_allowed", "__globals__", "def f(): f.count = 1"),
    row("f.__code__", "attribute_not_allowed", "__code__", "f.__name__, f.__doc__"),
    row("f.__closure__", "attribute_not_allowed", "__closure__", "f.closure"),
    row("f.__init__.__globals__", "attribute_not_allowed", "__globals__", "f.__init__()"),
    row("x.__dict__", "attribute_not_allowed", "__dict__", "x.dict"),
    row(
        "x.__reduce_ex__(2)",
        "attribute_not_allowed",
        "__reduce_ex__",
        "x.__repr__(); x.__eq__(1); x.__enter__()",
    ),
    row("(x for x in ()).gi_frame", "attribute_not_allowed", "gi_frame", "next(x for x in (1,))"),
    row("g.gi_frame.f_back.f_globals", "attribute_not_allowed", "f_back", "g.frame.back.globals"),
    row("c.cr_frame", "attribute_not_allowed", "cr_frame", "async def c(): await c()"),
    row("a.ag_frame", "attribute_not_allowed", "ag_frame", "a.age"),
    row(
        "e.__traceback__.tb_frame",
        "attribute_not_allowed",
        "tb_frame",
        "e.__cause__, e.__context__, e.args",
    ),
    row("f.__code__.co_consts", "attribute_not_allowed", "co_consts", "f.co_author"),
    row(
        "match x:\n  case object(__class__=c): pass",
        "attribute_not_allowed",
        "__class__",
        "match x:\n  case object(name=c): pass",
    ),
    row(
        "class A:\n  __match_args__ = ('__class__',)",
        "special_method_not_allowed",
        "__match_args__",
        "class A:\n  __match_args__ = ('x', 'y')",
    ),
    row(
        "class A:\n  __match_args__ = names()",
        "special_method_not_allowed",
        "__match_args__",
        "x = '__match_args__'",
    ),
    row("__class__", "name_not_allowed", "__class__", "class_ = 1; print(class_)"),
    // Attribute names that are not in the syntax tree.
    row(
        "getattr(x, '__cla' + 'ss__')",
        "computed_attribute_name",
        "getattr",
        "getattr(x, 'name', None)",
    ),
    row("getattr(x, '__class__')", "attribute_not_allowed", "__class__", "hasattr(x, '__class__')"),
    row(
        "getattr(x, '__cla' 'ss__')",
        "attribute_not_allowed",
        "__class__",
        "getattr(x, 'na' 'me')",
    ),
    row("getattr(*args)", "computed_attribute_name", "getattr", "print(*args)"),
    row("g = getattr", "name_not_allowed", "getattr", "attribute = x.attribute"),
    row(
        "import functools\nfunctools.reduce(getattr, p, x)",
        "name_not_allowed",
        "getattr",
        "import functools\nfunctools.reduce(max, p, 0)",
    ),
    row("setattr(x, n, 1)", "computed_attribute_name", "setattr", "setattr(x, 'n', 1)"),
    row("delattr(x, n)", "computed_attribute_name", "delattr", "delattr(x, 'n')"),
    row(
        "object.__getattribute__(x, n)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __getattr__(self, n): return n",
    ),
    row(
        "x.__getattribute__('__class__')",
        "attribute_not_allowed",
        "__class__",
        "class A:\n  def __setattr__(self, n, v): super().__setattr__(n, v)",
    ),
    row(
        "x.__setattr__(n, 'v')",
        "computed_attribute_name",
        "__setattr__",
        "object.__setattr__(x, 'n', 1)",
    ),
    row("g = x.__getattribute__", "attribute_not_allowed", "__getattribute__", "g = x.__getitem__"),
    row("import operator", "import_not_allowed", "operator", "sorted(x, key=lambda p: p.n)"),
    row(
        "import string\nstring.Formatter().get_field('0.__class__', (x,), {})",
        "module_member_not_allowed",
        "string.Formatter",
        "import string\nstring.Template('$x').substitute(x=1)",
    ),
    row(
        "import typing\ntyping.get_type_hints(A)",
        "module_member_not_allowed",
        "typing.get_type_hints",
        "import typing\nx: typing.Optional[int] = 1",
    ),
    // Imports.
    row("import os", "import_not_allowed", "os", "os_name = 'x'; print(os_name)"),
    row("import os, json", "import_not_allowed", "os", "import json, math"),
    row(
        "import os.path as p",
        "import_not_allowed",
        "os.path",
        "import collections.abc as c\nx: c.Mapping = {}",
    ),
    row("from os import system", "import_not_allowed", "os", "from json import loads"),
    row(
        "def f():\n  import socket",
        "import_not_allowed",
        "socket",
        "def f():\n  import math\n  return math.pi",
    ),
    row(
        "try:\n  import ctypes\nexcept ImportError: pass",
        "import_not_allowed",
        "ctypes",
        "try:\n  import math\nexcept ImportError: pass",
    ),
    row("import importlib", "import_not_allowed", "importlib", "import itertools"),
    row(
        "import sys\nsys.modules['os']",
        "import_not_allowed",
        "sys",
        "class S: modules = {}\nS.modules",
    ),
    row("import zipimport", "import_not_allowed", "zipimport", "import zoneinfo"),
    row("import pkgutil", "import_not_allowed", "pkgutil", "import pprint"),
    row("import pickle", "import_not_allowed", "pickle", "import json"),
    row("import marshal", "import_not_allowed", "marshal", "import math"),
    row("import code", "import_not_allowed", "code", "code = 1; print(code)"),
    row("import gc\ngc.get_objects()", "import_not_allowed", "gc", "garbage = []; print(garbage)"),
    row("import atexit", "import_not_allowed", "atexit", "import abc"),
    row("import threading", "import_not_allowed", "threading", "import textwrap"),
    row("from . import x", "relative_import", ".", "from math import pi"),
    row("from ..a import x", "relative_import", "..a", "from code_api.search import search"),
    row(
        "import code_api.evil",
        "import_not_allowed",
        "code_api.evil",
        "import code_api.search, code_api.reranking\nfrom code_api import filtering",
    ),
    row(
        "from code_api import evil",
        "module_member_not_allowed",
        "code_api.evil",
        "from code_api import search\nsearch('x')",
    ),
    row(
        "import io\nio.open('x')",
        "module_member_not_allowed",
        "io.open",
        "import io\nio.StringIO('x'); io.BytesIO(b'x')",
    ),
    row(
        "from io import FileIO",
        "module_member_not_allowed",
        "io.FileIO",
        "from io import StringIO, BytesIO",
    ),
    row("from io import *", "star_import", "io", "from math import *"),
    row("from uuid import *", "star_import", "uuid", "from uuid import uuid4"),
    // What a module imported for itself.
    row(
        "import enum\nenum.sys.modules",
        "module_member_not_allowed",
        "enum.sys",
        "import enum\nclass C(enum.Enum): A = 1",
    ),
    row(
        "import random\nrandom._os.system('x')",
        "module_member_not_allowed",
        "random._os",
        "import random\nrandom.random()",
    ),
    row(
        "from enum import bltns",
        "module_member_not_allowed",
        "enum.bltns",
        "from enum import Enum, auto",
    ),
    row(
        "from contextlib import os",
        "module_member_not_allowed",
        "contextlib.os",
        "from contextlib import contextmanager",
    ),
    row(
        "import dataclasses as d\nd.builtins.eval('1')",
        "module_member_not_allowed",
        "dataclasses.builtins",
        "import dataclasses as d\n@d.dataclass\nclass A: x: int",
    ),
    row(
        "import json\njson.decoder.os",
        "module_member_not_allowed",
        "json.decoder.os",
        "import json\njson.JSONDecodeError",
    ),
    row(
        "import collections.abc\ncollections.abc.sys",
        "module_member_not_allowed",
        "collections.abc.sys",
        "import collections.abc\ncollections.abc.Mapping",
    ),
    row("import enum\nm = enum\nm.sys", "module_as_value", "enum", "import enum\nprint(dir(enum))"),
    row(
        "import enum\ngetattr(enum, 'sys')",
        "module_as_value",
        "enum",
        "import math\nhasattr(math, 'lcm')",
    ),
    row(
        "import enum\nf = lambda m=enum: m.sys",
        "module_as_value",
        "enum",
        "import time\ndef f(time): return time",
    ),
    row("x.sys.modules", "module_member_not_allowed", "sys", "def f(x): return x.sys"),
    // Found while reading our own rules.
    row(
        "class A:\n  def __radd__(self, o): return o\neval += A()",
        "name_not_allowed",
        "eval",
        "total = 0\ntotal += 1",
    ),
    row(
        "with s(), b() as eval: pass\neval('1')",
        "call_not_allowed",
        "eval",
        "with s(), b() as eval: eval('1')",
    ),
    row(
        "from json import tool\ntool.sys.modules",
        "module_member_not_allowed",
        "json.tool",
        "import json\njson.decoder.JSONDecodeError",
    ),
    row(
        "import json\nd = json.decoder",
        "module_as_value",
        "decoder",
        "from json.decoder import JSONDecodeError",
    ),
    row(
        "class A:\n  import enum\nA.enum.sys",
        "module_as_value",
        "enum",
        "class A:\n  from math import pi\nA.pi",
    ),
    row(
        "class A:\n  from math import sin as __get__",
        "descriptor_method",
        "__get__",
        "class A:\n  from math import sin as get",
    ),
    row(
        "class A:\n  (__match_args__ := ('__class__',))",
        "special_method_not_allowed",
        "__match_args__",
        "class A:\n  (match_args := 1)",
    ),
    row(
        "import functools\nfunctools.update_wrapper(w, f, ('__globals__',))",
        "module_member_not_allowed",
        "functools.update_wrapper",
        "import functools\n@functools.wraps(f)\ndef g(): pass",
    ),
    row(
        "from functools import wraps\nwraps(f, assigned=('__globals__',))(w)",
        "computed_attribute_name",
        "wraps",
        "from functools import wraps\n@wraps(f)\ndef g(): pass",
    ),
    row(
        "import functools\nfunctools.wraps(f, ('__globals__',))(w)",
        "computed_attribute_name",
        "wraps",
        "def wraps(f): return f\nwraps(1)",
    ),
    row(
        "import functools\nw = functools.wraps",
        "computed_attribute_name",
        "wraps",
        "import functools\nw = functools.partial(max, 1)",
    ),
    row(
        "from functools import wraps as w",
        "module_member_not_allowed",
        "wraps",
        "from functools import partial as p",
    ),
    row(
        "import enum\nenum.global_enum(E)",
        "module_member_not_allowed",
        "enum.global_enum",
        "import enum\n@enum.unique\nclass E(enum.Enum): A = 1",
    ),
    row(
        "class A:\n  __annotations__ = {'x; import os': int}",
        "special_method_not_allowed",
        "__annotations__",
        "class A:\n  annotations = {}",
    ),
    row("t'{eval(1)}'", "call_not_allowed", "eval", "t'{x}'"),
    row(
        "import zoneinfo\nzoneinfo == x",
        "module_as_value",
        "zoneinfo",
        "try: import zoneinfo\nexcept ImportError: zoneinfo = None\nprint(zoneinfo is None)",
    ),
    row(
        "import json.decoder as d\nq = d.scanner",
        "module_as_value",
        "scanner",
        "import json.decoder as d\nd.JSONDecodeError",
    ),
    // An AttributeError carries the object that lacked the attribute, however hidden that one is: Python 3.10.
    row(
        "try: ('{0.__glo' + 'bals__.x}').format(f)\nexcept AttributeError as e: x = e.obj",
        "exception_object",
        "obj",
        "try: ('{0.' + name + '}').format(x)\nexcept AttributeError as e: print(e, e.name, e.args)",
    ),
    row(
        "match e:\n  case AttributeError(obj=o): pass",
        "exception_object",
        "obj",
        "match e:\n  case AttributeError(name=n): pass",
    ),
    row(
        "match e:\n  case E(args=A(x=[B(obj=o)])): pass",
        "exception_object",
        "obj",
        "match e:\n  case {'obj': o}: pass",
    ),
    row(
        "class E(ABC):\n  __match_args__ = ('obj',)\nE.register(AttributeError)",
        "exception_object",
        "obj",
        "class E(ABC):\n  __match_args__ = ('target',)\nE.register(AttributeError)",
    ),
    row(
        "class E(ABC):\n  __match_args__: tuple = ('x', 'obj')",
        "exception_object",
        "obj",
        "class E(ABC):\n  __match_args__: tuple = ('x', 'y')",
    ),
    row("getattr(e, 'obj')", "exception_object", "obj", "hasattr(e, 'obj')"),
    row(
        "e.__getattribute__('obj')",
        "exception_object",
        "obj",
        "class A:\n  def __init__(self, obj): self.obj = obj",
    ),
    // It hands the object to `R.__radd__`.
    row("e.obj += R()", "exception_object", "obj", "x.n += 1; x.obj = 1; del x.obj"),
    row("e.obj.y = 1", "exception_object", "obj", "x.y.obj = 1"),
    row("for e.obj.x in y: pass", "exception_object", "obj", "for x.obj in y: pass"),
    row("e.ｏbj", "exception_object", "obj", "e.object, e.objs, e.object_"),
    row(
        "try: pass\nexcept* AttributeError as g: g.exceptions[0].obj",
        "exception_object",
        "obj",
        "try: pass\nexcept* AttributeError as g: print(g.exceptions)",
    ),
    // So does the error of a module: `m.sys.modules` follows.
    row(
        "import enum\ntry: enum.nope\nexcept AttributeError as e: m = e.obj",
        "exception_object",
        "obj",
        "import enum\ntry: enum.StrEnum\nexcept AttributeError as e: print(e)",
    ),
    // A name that is a parameter is computed where something else than an attribute of the source asks: hasattr, str.format.
    row(
        "class A:\n  def __getattribute__(self, n): box.append(object.__getattribute__(f, n))\nhasattr(A(), s)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __getattribute__(self, n): return object.__getattribute__(self, n)\nhasattr(A(), s)",
    ),
    row(
        "class A:\n  def __getattribute__(self, n):\n    self = f\n    return object.__getattribute__(self, n)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __getattribute__(self, n):\n    x = f\n    return super().__getattribute__(n)",
    ),
    row(
        "class A:\n  def __getattr__(self, n):\n    for n in names: object.__getattribute__(self, n)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __delattr__(self, n):\n    for m in names: object.__delattr__(self, n)",
    ),
    row(
        "class A:\n  def __getattr__(self, n): return [object.__getattribute__(self, n) for self in [f]]",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __getattr__(self, n): return [x for x in [f]]",
    ),
    row(
        "class A:\n  def __getattr__(self, n): return lambda self: object.__getattribute__(self, n)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __getattr__(self, n): return lambda self: self.n",
    ),
    row(
        "class A:\n  def __getattr__(self, n):\n    def g():\n      nonlocal self\n      self = f\n    g()\n    return object.__getattribute__(self, n)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __getattr__(self, n):\n    def g():\n      nonlocal x\n      x = f\n    x = 1\n    return object.__getattribute__(self, n)",
    ),
    row(
        "class A:\n  @keep\n  def __getattr__(self, n): return object.__getattribute__(self, n)\nkept[0](f, s)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  @keep\n  def get(self, n): return self.values[n]",
    ),
    row(
        "class A:\n  def __getattr__(self, n): return super().__getattribute__(n)\ndef super(): return f",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __setattr__(self, n, v): super().__setattr__(n, v)",
    ),
    row(
        "class A:\n  def __getattr__(self, n): return super(B, f).__getattribute__(n)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __setattr__(self, n, v): super(A, self).__setattr__(n, v)",
    ),
    row(
        "class A:\n  def __setattr__(self, n, v): object.__setattr__(f, n, v)",
        "computed_attribute_name",
        "__setattr__",
        "class A(B):\n  def __setattr__(self, n, v): B.__setattr__(self, n, v)",
    ),
    row(
        "class A:\n  def __getattr__(self, n): return self.f.__getattribute__(n)",
        "computed_attribute_name",
        "__getattribute__",
        "class A:\n  def __getattr__(self, n): return self.values[n]",
    ),
    row(
        "def __getattr__(x, n): return object.__getattribute__(x, n)",
        "computed_attribute_name",
        "__getattribute__",
        "def __getattr__(n): raise AttributeError(n)",
    ),
    // Tricks of the reader.
    row("# coding: utf-7\nx = 1", "source_encoding", "utf-7", "# coding: utf-8\nx = 1"),
    row("x = 1\0", "null_byte", "\\0", "x = '\\0'"),
    row("def f(:", "syntax_error", "", "\u{feff}def f(): pass"),
    row("x = 1\u{c}\nimport os", "import_not_allowed", "os", "x = 1\n\u{c}\ny = 2"),
    row("#\rimport os", "import_not_allowed", "os", "# import os"),
    row("x = 1; \\\nimport os", "import_not_allowed", "os", "x = 1; \\\ny = 2"),
];

fn verdict(source: &str, preset: CodePreset) -> ScreenVerdict {
    screen(source.as_bytes(), preset, &[])
}

#[track_caller]
fn refused(source: &str, preset: CodePreset, rule: &str, subject: &str) {
    let verdict = verdict(source, preset);
    assert!(
        verdict
            .violations
            .iter()
            .any(|v| v.rule.as_str() == rule && (v.subject == subject || subject.is_empty())),
        "{preset} should refuse by {rule} for {subject}:\n{source}\n{verdict:#?}"
    );
    assert!(!verdict.safe && verdict.violations.iter().all(|v| !v.hint.to_string().is_empty()));
}

#[track_caller]
fn accepted(source: &str, preset: CodePreset) {
    let verdict = verdict(source, preset);
    assert!(verdict.safe, "{preset} should accept:\n{source}\n{verdict:#?}");
}

#[test]
fn every_attack_is_refused_and_its_twin_is_not() {
    for Row { attack, rule, subject, twin } in ROWS {
        refused(attack, Standard, rule, subject);
        accepted(twin, Standard);
    }
}

#[test]
fn the_place_is_that_of_the_contract() {
    let verdict = verdict("import os", Standard);
    let v = &verdict.violations[0];
    assert_eq!(
        (v.rule.as_str(), v.subject.as_str(), v.line, v.column),
        ("import_not_allowed", "os", 1, 8)
    );
}

/// What the strict preset refuses that the standard one does not, each beside what it allows.
const STRICT_ROWS: &[Row] = &[
    row("import math", "syntax_not_allowed", "import", "1 + 2"),
    row(
        "from math import pi",
        "syntax_not_allowed",
        "import",
        "x = [i * i for i in range(9) if i]",
    ),
    row("def f(): pass", "syntax_not_allowed", "def", "f = lambda x: x > 0\nlist(filter(f, [1]))"),
    row("async def f(): pass", "syntax_not_allowed", "async def", "{k: v for k, v in {}.items()}"),
    row("class A: pass", "syntax_not_allowed", "class", "d = {'a': 1}\nd['b'] = 2"),
    row("with x: pass", "syntax_not_allowed", "with", "while False: break"),
    row(
        "try: pass\nfinally: pass",
        "syntax_not_allowed",
        "try",
        "if x: pass\nelif y: pass\nelse: pass",
    ),
    row("raise x", "syntax_not_allowed", "raise", "assert x, 'message'"),
    row("global x", "syntax_not_allowed", "global", "x = y = 1; x += 1; del x"),
    row("match x:\n  case 1: pass", "syntax_not_allowed", "match", "x: int = 1"),
    row("type X = int", "syntax_not_allowed", "type", "(x := 1)"),
    row("def f(): yield", "syntax_not_allowed", "yield", "sum(i for i in [1])"),
    row("x._private", "private_attribute", "_private", "x.public.method(key=1, *a, **k)"),
    row("x.__init__", "private_attribute", "__init__", "x.init"),
    row("'{0._x}'.format(x)", "format_not_allowed", "{0._x}", "'{0.x} {}'.format(x, 1)"),
    row(
        "'{0.__class__}'.format(x)",
        "format_not_allowed",
        "{0.__class__}",
        "'the __class__ of {}'.format(x)",
    ),
    row(
        "f'{{0.__class__}}'.format(x)",
        "format_not_allowed",
        "format",
        "f'{x} {y:>{width}} {z!r}'",
    ),
    row("s.format(x)", "format_not_allowed", "format", "'%s %d' % (x, 1)"),
    row("str.format('{}', x)", "format_not_allowed", "format", "str(1).upper()"),
    row("s.format_map(d)", "format_not_allowed", "format_map", "'{}'.join(d)"),
    row("getattr(x, 'y')", "builtin_not_allowed", "getattr", "hasattr(x, 'y')"),
    row("type(x)", "builtin_not_allowed", "type", "isinstance(x, int)"),
    row("object()", "builtin_not_allowed", "object", "objects = 1; print(objects)"),
    row("ValueError('x')", "builtin_not_allowed", "ValueError", "error = 'x'"),
    row("format(x, 'd')", "builtin_not_allowed", "format", "format = '%d'\nformat % 1"),
    row("exit()", "builtin_not_allowed", "exit", "for id in [1]: print(id)"),
    row("{'__class__'}; x.__class__", "attribute_not_allowed", "__class__", "['__class__']"),
];

#[test]
fn strict_allows_its_whitelist_and_nothing_else() {
    for Row { attack, rule, subject, twin } in STRICT_ROWS {
        // `getattr` and `type` with their harmless arguments are refused by strict as builtins outside the 36.
        let verdict = verdict(attack, Strict);
        assert!(!verdict.safe, "{attack}");
        assert!(
            verdict.violations.iter().any(|v| v.rule.as_str() == *rule && v.subject == *subject),
            "strict should refuse by {rule} for {subject}:\n{attack}\n{verdict:#?}"
        );
        accepted(twin, Strict);
    }
}

#[test]
fn strict_has_36_builtins_and_calls_each_of_them() {
    for name in ringfence_screen::STRICT_BUILTINS {
        accepted(&format!("{name}(x)"), Strict);
        accepted(&format!("f = {name}"), Strict);
    }
}

/// Under the preset `data`, which refuses only what has no use but to break the interpreter open.
const DATA_ROWS: &[Row] = &[
    row(
        "def f(): pass\nf.__globals__['x']",
        "attribute_not_allowed",
        "__globals__",
        "print(globals()['__name__'])",
    ),
    row(
        "print.__self__.__builtins__",
        "attribute_not_allowed",
        "__builtins__",
        "import builtins\nprint(dir(builtins), eval('2*(3+4)'))",
    ),
    row(
        "().__class__.__base__.__subclasses__()",
        "attribute_not_allowed",
        "__subclasses__",
        "class Plugin: pass\nprint(Plugin.__subclasses__(), ().__class__.__name__)",
    ),
    row(
        "object.__subclasses__()",
        "attribute_not_allowed",
        "__subclasses__",
        "def plugins(cls): return cls.__subclasses__()",
    ),
    row(
        "getattr(type(''), '__subclasses__')()",
        "attribute_not_allowed",
        "__subclasses__",
        "def visit(self, n): return getattr(self, 'visit_' + n)()",
    ),
    row(
        "x = 1\nx.__class__.__mro__[1].__subclasses__()",
        "attribute_not_allowed",
        "__subclasses__",
        "class A: pass\nprint([c.__name__ for c in A.__mro__])",
    ),
    row(
        "def f(): pass\ndef g(): pass\nf.__code__ = g.__code__",
        "attribute_not_allowed",
        "__code__",
        "def f(a): pass\nprint(f.__code__.co_argcount, f.__code__.co_varnames)",
    ),
    row(
        "def f(): pass\nsetattr(f, '__code__', None)",
        "attribute_not_allowed",
        "__code__",
        "def f(): pass\nsetattr(f, 'cached', True)",
    ),
    row(
        "(x for x in ()).gi_frame.f_back",
        "attribute_not_allowed",
        "gi_frame",
        "g = (x for x in ())\ng.close()",
    ),
    row(
        "try: 1/0\nexcept Exception as e: e.__traceback__.tb_frame.f_globals",
        "attribute_not_allowed",
        "f_globals",
        "import traceback\ntry: 1/0\nexcept Exception as e: print(e.__traceback__.tb_lineno, e.__traceback__.tb_frame.f_code.co_name)",
    ),
    row(
        "import inspect\ninspect.currentframe().f_back.f_builtins",
        "attribute_not_allowed",
        "f_builtins",
        "import inspect\nprint(inspect.signature(len), inspect.currentframe().f_lineno)",
    ),
    row(
        "import sys\nsys._getframe(1)",
        "attribute_not_allowed",
        "_getframe",
        "import sys\nsys.exit(sys.argv)",
    ),
    row(
        "import sys as s\ns.settrace(print)",
        "module_member_not_allowed",
        "sys.settrace",
        "import sys\nsys.setrecursionlimit(5000)",
    ),
    row(
        "from sys import settrace",
        "module_member_not_allowed",
        "sys.settrace",
        "from sys import argv, path",
    ),
    row(
        "import gc\ngc.get_objects()",
        "module_member_not_allowed",
        "gc.get_objects",
        "import gc\ngc.collect(); gc.disable()",
    ),
    row(
        "from gc import get_referrers as r",
        "module_member_not_allowed",
        "gc.get_referrers",
        "class Gc:\n    def get_objects(self): return []\ngc = Gc()\ngc.get_objects()",
    ),
    row(
        "import ctypes\ngetattr(ctypes, 'pythonapi')",
        "module_member_not_allowed",
        "ctypes.pythonapi",
        "import ctypes\nprint(ctypes.sizeof(ctypes.c_int), ctypes.CDLL(None).abs(-1))",
    ),
    row(
        "match print:\n    case object(__globals__=g): pass",
        "attribute_not_allowed",
        "__globals__",
        "class M(type): pass\nclass A(metaclass=M):\n    def __init_subclass__(cls): pass",
    ),
    // What a tighter preset refuses is noted.
    row(
        "x = (",
        "syntax_error",
        "unexpected EOF while parsing",
        "import os, subprocess, socket, pickle, unittest\nfrom os import *\ninput('?')",
    ),
];

#[test]
fn the_default_refuses_what_breaks_the_interpreter_open_and_nothing_else() {
    for Row { attack, rule, subject, twin } in DATA_ROWS {
        refused(attack, Data, rule, subject);
        accepted(twin, Data);
    }
}

#[test]
fn the_default_notes_what_standard_refuses() {
    let source = "import os\nprint(eval('1'))\nprint(object.__subclasses__())";
    let found = |verdict: &ScreenVerdict| {
        let row = |rule: &str, line| format!("{rule}:{line}");
        let noted = verdict.findings.iter().map(|f| row(f.rule.as_str(), f.line));
        let refused = verdict.violations.iter().map(|v| row(v.rule.as_str(), v.line));
        (noted.collect::<Vec<_>>(), refused.collect::<Vec<_>>())
    };
    let [import, call, attribute] =
        ["import_not_allowed:1", "call_not_allowed:2", "attribute_not_allowed:3"]
            .map(str::to_owned);
    let all = vec![import.clone(), call.clone(), attribute.clone()];
    assert_eq!(found(&verdict(source, Standard)), (vec![], all));
    assert_eq!(found(&verdict(source, Data)), (vec![import, call], vec![attribute]));
    assert_eq!(found(&verdict(source, Open)), (vec![], vec![]));
    // The risk of a program that runs is that of its findings.
    let noted = verdict("import subprocess", Data);
    assert!(noted.safe && noted.risk == ringfence_screen::ScreenRisk::High, "{noted:?}");
    assert_eq!(noted.findings[0].risk, ringfence_spec::Risk::High);
    // A module that the operator allows is the program's to use.
    assert!(screen(b"import sys\nsys.settrace(print)", Data, &["sys".to_owned()]).safe);
}

#[test]
fn open_refuses_only_what_is_not_a_program() {
    for Row { attack, rule, .. } in ROWS.iter().chain(STRICT_ROWS).chain(DATA_ROWS) {
        let of_the_reader = matches!(*rule, "syntax_error" | "null_byte" | "source_encoding");
        assert_eq!(verdict(attack, Open).safe, !of_the_reader, "{attack}");
    }
}

#[test]
fn every_rule_has_a_row() {
    let rows = || ROWS.iter().chain(STRICT_ROWS).chain(DATA_ROWS);
    // These have tests of their own in `hostile.rs` and `verdict.rs`.
    let elsewhere = ["source_too_large", "source_not_utf8", "too_deep", "more_violations"];
    for rule in ringfence_screen::RULES {
        assert!(
            elsewhere.contains(&rule.name.as_str())
                || rows().any(|row| row.rule == rule.name.as_str()),
            "no row for {}",
            rule.name
        );
    }
}

#[test]
fn risk_tells_a_way_out_from_a_missing_module() {
    let risk = |source| serde_json::to_value(verdict(source, Standard)).unwrap()["risk"].clone();
    assert_eq!(risk("x = 1"), "safe");
    assert_eq!(risk("import flask"), "medium");
    assert_eq!(risk("x = ("), "medium");
    assert_eq!(risk("import ctypes"), "high");
    assert_eq!(risk("import flask\n().__class__"), "high");
}

#[test]
fn an_operator_can_add_a_module() {
    let extra = ["yaml".to_owned(), "os".to_owned()];
    let with = |source: &str, preset| screen(source.as_bytes(), preset, &extra).safe;
    assert!(with("import yaml.nodes, os\nos.system('id')", Standard));
    assert!(with("from yaml import *", Standard));
    assert!(!with("import yamlx", Standard));
    assert!(!with("import yaml", Strict), "strict has no import at all");
}

#[test]
fn following_a_hint_helps() {
    let hints: &[(&str, &str, &str)] = &[
        ("x.__class__", "type(x)", "type(x)"),
        ("import pickle", "json", "import json"),
        ("f = functools.singledispatch", "isinstance", "isinstance(x, int)"),
        (
            "from typing import get_type_hints",
            "dataclasses.fields",
            "import dataclasses\ndataclasses.fields(x)",
        ),
        ("class A(metaclass=M): pass", "abc.ABC", "import abc\nclass A(abc.ABC): pass"),
        ("import os.path", "the preset `data` has it", ""),
        ("import numpy", "the preset `data` has it", ""),
        ("open('x')", "io.StringIO", "import io\nio.StringIO('x')"),
        ("eval('1')", "json.loads", "import json\njson.loads('1')"),
        ("import flask", "--allow-import flask", ""),
    ];
    for (source, hint, instead) in hints {
        let source = if source.contains("functools") {
            format!("import functools\n{source}")
        } else {
            (*source).to_owned()
        };
        let verdict = verdict(&source, Standard);
        assert!(
            verdict.violations.iter().any(|v| v.hint.to_string().contains(hint)),
            "{source}: {:?}",
            verdict.violations
        );
        accepted(instead, Standard);
    }
    assert!(screen(b"import flask", Standard, &["flask".to_owned()]).safe);
}
