# expect: STOPPED vanished or status=error or status=failed or status=killed
# Close the streams and end without a word to the interpreter around it.
import os

os.write(1, b"STOPPED vanished\n")
os.close(1)
os.close(2)
os._exit(0)
