"""Makes a workspace as hostile as it can, for some seconds: what the host reads there before and after the next run.

Arguments: seed, seconds. Everything may fail; what fails is left out.
"""
import os
import random
import socket
import struct
import sys
import time

choose = random.Random(int(sys.argv[1]))
until = time.monotonic() + float(sys.argv[2])

# Names that the host looks at.
NAMES = [
    "ringfence.toml", ".python-version", "pyvenv.cfg", ".env", ".env.local", ".envrc", ".mcp.json", ".claude", ".vscode",
    ".gitmodules", ".gitattributes", ".husky", "HEAD", "objects", "refs", "config", ".git",
]
GIT_NAMES = [
    "HEAD", "index", "config", "config.worktree", "commondir", "gitdir", "packed-refs", "shallow", "hooks", "modules", "worktrees",
    "info/attributes", "objects/info/alternates", "rebase-merge/git-rebase-todo", "sharedindex." + "0" * 40, "FETCH_HEAD",
]
TEXTS = [
    b"", b"\0" * 5000, b"gitdir: .\n", b"gitdir: ../../../../../../etc\n", b"gitdir: " + b"x/" * 3000, b"../..\n", b"ref: refs/heads/x\n",
    b"[core]\n\tworktree = ../../..\n\thooksPath = .\n\tfsmonitor = ./x\n", b"[include]\n\tpath = config\n" * 2000, b"[a]\n" + b"b = c\n" * 40000,
    b"ro = [\"d\"]\nhide = [\"..\"]\n", b"timeout = \"1ms\"\n", b"[" * 60000, b"home = /etc\n", b"exec touch /tmp/x\n" * 5000, os.urandom(300000),
]


def some_name():
    kind = choose.random()
    if kind < 0.2:
        return choose.choice(NAMES)
    if kind < 0.45:
        return os.path.join(choose.choice([".git", ".git", "sub/.git", "a/.git", ".git/worktrees/w%d" % choose.randrange(40),
                                           ".git/modules/m%d" % choose.randrange(40)]), choose.choice(GIT_NAMES))
    if kind < 0.6:
        return ".env.%d" % choose.randrange(2000)
    if kind < 0.7:
        return "d%d/.git" % choose.randrange(2000)
    if kind < 0.8:
        return "/".join("d%d" % choose.randrange(4) for _ in range(choose.randrange(1, 40)))
    if kind < 0.9:
        return choose.choice(["a\nb", "\x1b[2J", "\u202e", "n" * 255, "`x`", b"\xff\xfe".decode("utf-8", "surrogateescape")])
    return "f%d" % choose.randrange(100000)


def index():
    """An index of random entries, nested repositories and lies among them."""
    version = choose.choice([2, 3, 4, 4, 99])
    body = b""
    n = choose.choice([1, 40, 3000])
    for i in range(n):
        mode = choose.choice([0o100644, 0o160000, 0o160644, 0o40000])
        name = choose.choice([b"d%d" % i, b"../d%d" % i, b"n" * choose.choice([10, 4094, 70000]), b"x/y\0z", b""])
        flags = min(len(name), 0xFFF) | choose.choice([0, 0, 0x4000])
        entry = bytes(24) + struct.pack(">I", mode) + bytes(32) + struct.pack(">H", flags)
        entry += b"\0" if version == 4 else b""
        entry += name + b"\0"
        body += entry + bytes(-len(entry) % 8)
        if len(body) > 30_000_000:
            break
    more = choose.choice([b"", b"link" + struct.pack(">I", 20) + os.urandom(20), b"IEOT" + struct.pack(">III", 8, 1, 5), b"sdir\0\0\0\0"])
    return b"DIRC" + struct.pack(">II", version, choose.choice([n, n * 100, 0xFFFFFFFF])) + body + more + bytes(20)


def write(path, text):
    with open(path, "wb") as file:
        file.write(text)


def make(path):
    parent = os.path.dirname(path)
    if parent:
        os.makedirs(parent, exist_ok=True)
    kind = choose.randrange(12)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        os.symlink(choose.choice(["/dev/zero", "/", "..", path, "/proc/self/mem", "nowhere", "/dev/tty", "d1"]), path)
    elif kind == 2:
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
    elif kind == 3:
        write(path, b"")
        os.truncate(path, choose.choice([1 << 20, 1 << 30, 1 << 40]))
    elif kind == 4:
        os.makedirs(path, exist_ok=True)
    elif kind == 5:
        write(path, index())
    else:
        write(path, choose.choice(TEXTS))


def flood():
    """Very many entries of one kind."""
    kind, n = choose.randrange(6), choose.choice([100, 3000, 20000])
    for i in range(n):
        if time.monotonic() > until:
            return
        if kind == 0:
            os.close(os.open("flood-%d" % i, os.O_CREAT | os.O_WRONLY))
        elif kind == 1:
            os.makedirs("flooded-%d/.git" % i, exist_ok=True)
        elif kind == 2:
            os.makedirs(".git/worktrees/f%d" % i, exist_ok=True)
            write(".git/worktrees/f%d/gitdir" % i, b"../../../f%d/.git\n" % i)
        elif kind == 3:
            os.makedirs(".git/modules/%s" % "/".join("m%d" % (i + j) for j in range(3)), exist_ok=True)
            write(".git/modules/m%d/HEAD" % i, b"ref: x\n")
            write(".git/modules/m%d/config" % i, b"[core]\nworktree = ../../../d%d\n" % i)
        elif kind == 4:
            os.close(os.open(".env.%d" % i, os.O_CREAT | os.O_WRONLY))
        else:
            os.symlink(".env.%d" % (i + 1), ".env.%d" % i)


def step():
    act = choose.random()
    if act < 0.7:
        make(some_name())
    elif act < 0.78:
        os.rename(some_name(), some_name())
    elif act < 0.83:
        os.remove(some_name())
    elif act < 0.87:
        os.chmod(some_name(), choose.choice([0, 0o111, 0o400, 0o755, 0o1777]))
    elif act < 0.9:
        os.utime(some_name(), (choose.choice([0, 1 << 33, -1]), choose.choice([0, 1 << 33])), follow_symlinks=False)
    elif act < 0.93:
        os.link(some_name(), some_name())
    elif act < 0.95:
        os.symlink(some_name(), some_name())
    else:
        flood()


while time.monotonic() < until:
    try:
        step()
    except (OSError, ValueError, OverflowError):
        pass
