"""A name that moves from one server to another, as a cluster's does: an address of this machine that hands on to a port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread


class MovingName:
    """``port``: its own; ``target``: that of the server behind it."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock, self._open = Lock(), set[socket.socket]()
        Thread(target=self._serve, daemon=True).start()

    def move(self, target: int) -> None:
        """From now on it leads there. Whoever is connected is cut off, as a server that dies cuts off."""
        with self._lock:
            self.target = target
            cut, self._open = self._open, set()
        for one in cut:
            _close(one)

    def close(self) -> None:
        """Nobody is behind it any more."""
        _close(self._listener)
        self.move(0)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                try:
                    server = socket.create_connection(("127.0.0.1", self.target), timeout=10)
                except OSError:
                    _close(client)
                    continue
                server.settimeout(None)
                self._open |= {client, server}
            for one, other in ((client, server), (server, client)):
                Thread(target=_hand_on, args=(one, other), daemon=True).start()


@contextmanager
def moving(target: int) -> Iterator[MovingName]:
    """One, for as long as this lasts."""
    name = MovingName(target)
    try:
        yield name
    finally:
        name.close()


def _hand_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while said := one.recv(1 << 16):
            other.sendall(said)
    _close(one)
    _close(other)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
