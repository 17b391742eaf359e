"""What the shell cannot do: modules, the loopback interface, and listeners that a run must not reach."""
import ctypes, fcntl, lzma, os, socket, struct, threading

libc = ctypes.CDLL(None, use_errno=True)
for name in os.listdir("/vm/modules"):
    opened = lzma.open if name.endswith(".xz") else open
    module = opened("/vm/modules/" + name, "rb").read()
    if libc.syscall(175, module, ctypes.c_size_t(len(module)), b"") != 0:  # init_module
        print(name + ":", os.strerror(ctypes.get_errno()))

with socket.socket() as s:  # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41))


def serve(listener):
    while True:
        connection, _ = listener.accept()
        connection.sendall(b"canary")
        connection.close()


tcp = socket.socket()
tcp.bind(("127.0.0.1", 7777))
unix = socket.socket(socket.AF_UNIX)
unix.bind("/tmp/listener.sock")
os.chmod("/tmp/listener.sock", 0o777)
for listener in (tcp, unix):
    listener.listen()
    threading.Thread(target=serve, args=(listener,)).start()
open("/run/ready", "w").close()
