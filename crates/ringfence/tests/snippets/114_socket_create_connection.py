# expect: error no network
import socket

with socket.create_connection(("example.com", 80), timeout=5) as sock:
    sock.sendall(b"HEAD / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
    reply = b""
    while chunk := sock.recv(4096):
        reply += chunk
print(reply.decode("latin-1").splitlines()[0])
