"""One child process of the embedded stack: started detached, recognised later, ended for good."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from ingest.lake.files import owner
from ingest.model.errors import Exit, IngestError

HOME_VARIABLE = "INGEST_LOCAL_HOME"
"""Every child carries the stack's folder in its environment, so leftovers can be recognised."""

GUEST_VARIABLE = "INGEST_LOCAL_GUEST"
"""The same of a process that is no part of the stack and of no use without it, as the demo's job: `down` ends it, `up` does not."""


@dataclass(frozen=True)
class Child:
    """A process by pid *and* start: a pid alone may have been given to somebody else.

    ``ticks`` and ``boot`` say when it began as the kernel counts (``lake.files.owner``), and no clock moves them.
    ``created`` is the same by the wall clock. A clock that is set moves it for every process, and by it a healthy
    server would be taken for gone, and its process for a leftover to be killed. So it decides only where the ticks are
    not known: in a state file of before they were kept, and on macOS.
    """

    part: str
    pid: int
    created: float
    ticks: int | None = None
    boot: str = ""

    @classmethod
    def of(cls, part: str, pid: int) -> Child:
        """The process that has this id now."""
        ticks = owner.process(pid).ticks
        return cls(part, pid, psutil.Process(pid).create_time(), ticks, owner.boot_id())

    def process(self) -> psutil.Process | None:
        """The running process, or None when it is gone."""
        try:
            found = psutil.Process(self.pid)
            if found.status() == psutil.STATUS_ZOMBIE:
                return None
            return found if self._is(found) else None
        except psutil.NoSuchProcess:
            return None

    def _is(self, found: psutil.Process) -> bool:
        ticks = owner.process(self.pid).ticks
        if self.ticks is None or ticks is None:
            return bool(abs(found.create_time() - self.created) < 1)
        return (self.ticks, self.boot) == (ticks, owner.boot_id())

    def as_dict(self) -> dict[str, object]:
        """For the stack's state file."""
        return asdict(self)


def start(part: str, command: Sequence[str], *, home: Path, env: dict[str, str]) -> Child:
    """Start a child that outlives this command; its output goes to ``logs/<part>.out``."""
    log = home / "logs" / f"{part}.out"
    with log.open("ab") as output:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home,
            env={**os.environ, **env, HOME_VARIABLE: str(home)},
            start_new_session=True,
        )
    _STARTED[started.pid] = started
    return Child.of(part, started.pid)


_STARTED: dict[int, subprocess.Popen[bytes]] = {}


def returncode(child: Child) -> int | None:
    """Exit status of a child that *this* process started (minus the signal), when it has ended."""
    started = _STARTED.get(child.pid)
    return started.poll() if started else None


def stop(child: Child, *, grace: float) -> None:
    """End a child: politely, then after ``grace`` seconds with SIGKILL."""
    process = child.process()
    if process is None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(grace)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(10)
    if child.pid in _STARTED:
        _STARTED.pop(child.pid).wait(10)


def leftovers(home: Path, *, guests: bool = False) -> list[psutil.Process]:
    """Processes of an earlier run of the stack in this folder, whoever recorded them; its ``guests``, too, where they are asked for."""
    found, marks = [], [HOME_VARIABLE, *([GUEST_VARIABLE] if guests else [])]
    for process in psutil.process_iter():
        try:
            marked = str(home) in map(process.environ().get, marks)
            if marked and process.pid != os.getpid():
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def refuse_busy_port(part: str, port: int) -> None:
    """Raise when somebody else listens on the port that a part of the stack is to use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OverflowError:
            raise IngestError(
                "E-LOCAL-PORT",
                f"There is no port {port}, which {part} is to use.",
                means="Nothing was started.",
                remedy=f"choose one of 1 to 65535: `ingest local up --{part}-port N`.",
            ) from None
        except OSError:
            raise IngestError(
                "E-LOCAL-PORT",
                f"Port {port} of 127.0.0.1, which {part} is to use, is taken by {_owner(port)}.",
                means="Nothing was started.",
                remedy=f"stop that program, or choose another port: "
                f"`ingest local up --{part}-port N`.",
                exit_code=Exit.REFUSED,
            ) from None


def _owner(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        pass
    return "another program"
