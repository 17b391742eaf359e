def tcp(host, port):
    import socket
    return socket.create_connection((host, port), 10)


def tls(connection, name):
    import ssl
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection, server_hostname=name)


def through_proxy(target):
    connection = tcp("127.0.0.1", 3128)
    connection.sendall(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        # Byte by byte: what follows may be the first words of a server.
        head += connection.recv(1) or stopped("closed")
    if status(head.decode()) != "200":
        stopped(status(head.decode()))
    return connection


def through_socks(kind, address, port):
    connection = tcp("127.0.0.1", 3128)
    connection.sendall(b"\5\1\0")
    if connection.recv(2) != b"\5\0":
        stopped("no SOCKS")
    length = bytes([len(address)]) if kind == 3 else b""
    connection.sendall(b"\5\1\0" + bytes([kind]) + length + address + port.to_bytes(2, "big"))
    reply = connection.recv(10)
    if reply[1:2] != b"\0":
        stopped("SOCKS %d" % reply[1] if len(reply) > 1 else "closed")
    return connection


def ask(connection, host, path="/", extra=""):
    request = "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + extra + "\r\n"
    connection.sendall(request.encode("latin-1"))
    return connection.recv(65536).decode("latin-1")


def status(answer):
    words = answer.split(" ")
    return words[1] if len(words) > 1 else "closed"


def told(answer, line):
    # The server's answer names the request that it served; a refusal of the fence has another status.
    if line in answer:
        escaped()
    stopped(status(answer))


def judged(attack):
    import socket, ssl
    try:
        attack()
    except ssl.SSLError as error:
        reason = error.reason or "closed"
        stopped("closed" if "EOF" in reason else reason)
    except socket.gaierror as error:
        stopped({-2: "EAI_NONAME", -3: "EAI_AGAIN", -5: "EAI_NODATA"}.get(error.errno, error))
    except socket.timeout:
        stopped("timeout")
    except OSError as error:
        stopped(error)


