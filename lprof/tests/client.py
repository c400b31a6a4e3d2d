"""A generator that knows only limo-2018, Listing 3.1 and Table 3.1: plays sessions against the executor at a port."""

import socket
import struct
import sys

MAGIC = struct.unpack(">Q", b"LimoProf")[0]
INIT = struct.Struct("@QQH128s6x")
HEADER = struct.Struct("@I4xq")
OK, ERROR, WRONG_VERSION, INVALID_REQUEST, AWAIT_START, ACK_START, FINI, ACK_END = range(0, -8, -1)
DUMMY, UNKNOWN = 0, 999


class Client:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)

    def expect(self, code):
        message = b""
        while len(message) < HEADER.size:
            part = self.socket.recv(HEADER.size - len(message))
            assert part, f"the end instead of code {code}"
            message += part
        assert HEADER.unpack(message)[1] == code, f"{message} instead of code {code}"

    def expect_end(self):
        assert self.socket.recv(1) == b"", "more than expected"

    def init(self, magic=MAGIC, version=1, app=DUMMY):
        self.socket.sendall(INIT.pack(magic, version, app, b"python"))

    def package(self, sqn, content):
        self.socket.sendall(HEADER.pack(sqn, len(content)) + content)

    def status(self, code):
        self.socket.sendall(HEADER.pack(0, code))

    def begin(self):
        self.expect(AWAIT_START)
        self.init()
        self.expect(ACK_START)

    def end(self):
        self.status(FINI)
        self.expect(ACK_END)
        self.expect_end()


def whole_session():
    client = Client()
    client.begin()
    client.status(OK)
    for sqn in range(1000):
        client.package(sqn, b"x" * sqn)
    client.end()


def refused(code, **init):
    client = Client()
    client.expect(AWAIT_START)
    client.init(**init)
    client.expect(code)
    client.expect_end()


def error_within_a_session():
    client = Client()
    client.begin()
    client.status(-1000)
    client.expect(ERROR)
    client.expect_end()


def garbage():
    client = Client()
    client.expect(AWAIT_START)
    client.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
    client.expect(WRONG_VERSION)
    client.expect_end()


def waiting_client():
    first, second = Client(), Client()
    first.begin()
    second.socket.settimeout(0.2)
    try:
        second.socket.recv(1)
        raise AssertionError("two sessions at the same time")
    except TimeoutError:
        second.socket.settimeout(30)
    first.end()
    second.begin()
    second.end()


def client_that_goes():
    client = Client()
    client.begin()
    client.socket.sendall(HEADER.pack(0, 1000) + b"not all")
    client.socket.close()


whole_session()
refused(WRONG_VERSION, version=2)
refused(WRONG_VERSION, magic=struct.unpack("<Q", b"LimoProf")[0])
refused(INVALID_REQUEST, app=UNKNOWN)
error_within_a_session()
garbage()
waiting_client()
client_that_goes()
whole_session()
print("all sessions as expected")
