"""Stands before an HTTP server and does to its answers what networks and servers do: late, lost, refused."""

from __future__ import annotations

import http
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Fault = Literal[
    "none", "busy", "lost", "slow", "obliging", "conflict", "denied", "expired", "hasty"
]
"""``busy``: answered 503, nothing done; ``denied``: refused, 403; ``expired``: the key is too old, which Amazon answers by 400; ``lost``: done, and the connection cut before the answer; ``slow``: done a second later;
``conflict``: refused, since another put of that name is under way, as Amazon's does; ``obliging``: a condition that does not hold is answered as if it did; ``hasty``: the same where nobody had made that name when the request came, as by a server that looks
first and writes then.
"""

_REFUSED: dict[Fault, tuple[int, str]] = {
    "conflict": (409, "ConditionalRequestConflict"),
    "denied": (403, "AccessDenied"),
    "expired": (400, "ExpiredToken"),
}


@dataclass(frozen=True)
class Exchange:
    """A request that reached the server, and how it was answered there, whatever was handed on of it."""

    method: str
    path: str
    content: bytes
    status: int


@dataclass
class Faulty:
    """``fault``: asked with each request's method and path; ``heard``: told of each that has reached the server."""

    port: int
    fault: Callable[[str, str], Fault] = lambda method, path: "none"
    heard: Callable[[Exchange], object] = lambda exchange: None
    done: list[tuple[str, str, Fault]] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    """Paths that were put."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def _content(body: bytes, encoding: str) -> bytes:
    """What was put: Amazon's clients for Java send it in pieces, each behind its size and signature."""
    if "aws-chunked" not in encoding:
        return body
    content, rest = b"", body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            break
        content, rest = content + rest[:size], rest[size + 2 :]
    return content


@contextmanager
def before(port: int) -> Iterator[Faulty]:
    """One before the server at a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else what stands behind an answer's head waits 40 ms

        def log_message(self, *said: object) -> None:
            """Nothing on the screen."""

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            fault = faulty.fault(self.command, self.path)
            faulty.done.append((self.command, self.path, fault))
            if fault == "busy":
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if fault in _REFUSED:
                status, code = _REFUSED[fault]
                said = f"<Error><Code>{code}</Code></Error>".encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(said)
                return
            oblige = fault == "obliging" or (fault == "hasty" and self.path not in faulty.made)
            if fault == "slow":
                time.sleep(1)
            # What was signed includes the name and port that were asked, so they are handed on as they came.
            behind = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                behind.putrequest(
                    self.command, self.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in self.headers.items():
                    behind.putheader(name, value)
                behind.endheaders(body)
                answer = behind.getresponse()
                content = answer.read()
            finally:
                behind.close()
            sent = _content(body, self.headers.get("Content-Encoding", ""))
            faulty.heard(Exchange(self.command, self.path, sent, answer.status))
            if fault == "lost":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if self.command == "PUT" and answer.status == http.HTTPStatus.OK:
                faulty.made.add(self.path)
            if oblige and answer.status == http.HTTPStatus.PRECONDITION_FAILED:
                self.send_response_only(200)
                self.send_header("ETag", '"any"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length_said = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length_said or str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _any  # noqa: N815 - names of http.server's

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    faulty = Faulty(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield faulty
    finally:
        server.shutdown()
        server.server_close()
