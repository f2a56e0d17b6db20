"""Which process holds a lease: so that it can be named, and found dead on its own machine.

No wall clock is in it. A job's neighbour would be taken for gone when the clock is set, by NTP or as a machine
resumes, if a process were told from a later one of the same id by the time of day at which it began.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

_BEGAN = 19
"""Field 22 of ``/proc/PID/stat``, counted from the one behind the command: when the process began, in the kernel's
ticks since the machine's boot. The kernel never changes it (proc(5): ``starttime``)."""

_GREATEST = 2**31
"""Above every process id."""


@dataclass(frozen=True)
class Process:
    """What this machine says of a process id now. ``ticks``: when the process of that id began, in ticks since the
    machine's boot; None where that is not known.
    """

    runs: bool
    ticks: int | None = None


@dataclass(frozen=True)
class Owner:
    """A process. ``boot``: of its machine, and its space of process ids; ``ticks``: as :class:`Process` has them."""

    host: str
    boot: str
    pid: int
    ticks: int | None = None

    @classmethod
    def this_process(cls) -> Owner:
        """The process that asks."""
        pid = os.getpid()
        return cls(socket.gethostname(), _boot(), pid, process(pid).ticks)

    @classmethod
    def from_json(cls, text: str) -> Owner | None:
        """Whom a lease's file names; None for a file that says it of nobody: empty, cut off, or of another form.

        A field that is not known here is passed over. Earlier versions wrote no ticks, but ``started``: a time of the
        wall clock, by which nobody is judged any more.
        """
        try:
            found = json.loads(text)
        except ValueError:
            return None
        if not isinstance(found, dict):
            return None
        host, boot, pid, ticks = (found.get(name) for name in ("host", "boot", "pid", "ticks"))
        if not (isinstance(host, str) and isinstance(boot, str) and isinstance(pid, int)):
            return None
        if not 0 < pid < _GREATEST:  # 0 and below are groups of processes
            return None
        return cls(host, boot, pid, ticks if isinstance(ticks, int) else None)

    def as_json(self) -> str:
        """The inverse."""
        return json.dumps(asdict(self))

    def is_surely_gone(self, here: Owner, now: Process) -> bool:
        """True only on the owner's own machine and boot: when no process of its id runs there, or one that began at
        another tick. ``here``: who asks; ``now``: what its machine says of the owner's id. Pure.
        """
        if (self.host, self.boot) != (here.host, here.boot):
            return False
        if not now.runs:
            return True
        return None not in (self.ticks, now.ticks) and self.ticks != now.ticks

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def process(pid: int) -> Process:
    """What this machine says of a process id."""
    try:
        os.kill(pid, 0)  # which sends nothing
    except ProcessLookupError:
        return Process(runs=False)
    except PermissionError:
        pass  # another user's, which /proc may be mounted not to show
    # Should it have ended by now: no ticks, or those of one that has its id since. Both are true of it.
    return Process(runs=True, ticks=_ticks(pid))


def began(stat: bytes) -> int | None:
    """The ticks in the text of a ``/proc/PID/stat``; None where it is no such text. Before them stands the command in
    parentheses, which may itself hold spaces, parentheses and line feeds.
    """
    fields = stat.rpartition(b")")[2].split()
    return int(fields[_BEGAN]) if len(fields) > _BEGAN and fields[_BEGAN].isdigit() else None


def boot_id() -> str:
    """The machine's boot, of which Linux draws an id; elsewhere its time, which moves with the wall clock."""
    drawn = Path("/proc/sys/kernel/random/boot_id")
    if drawn.exists():
        return drawn.read_text(encoding="utf-8").strip()
    return str(int(psutil.boot_time()))


def _ticks(pid: int) -> int | None:
    try:
        # Where a space of process ids has the /proc of another one, the same number is another process there.
        if Path("/proc/self").readlink().name != str(os.getpid()):
            return None
        return began(Path(f"/proc/{pid}/stat").read_bytes())
    except OSError:  # no such system (macOS), or no such process any more
        return None


def _boot() -> str:
    """Compared for equality alone. Linux draws an id at each boot. Elsewhere it is the time of the boot, which moves
    with the wall clock. Where that makes one boot look like two, nobody is surely gone, and the owner's counter is
    watched. Where it makes two boots of a machine look like one, the owner has ended with the first of them, and by its
    process id it is found gone or, where another process has that by now, its counter is watched, too.
    """
    space = Path("/proc/self/ns/pid")
    # Two containers of one machine may share name and boot, not the space of process ids.
    namespace = str(space.readlink()) if space.is_symlink() else ""
    return f"{boot_id()} {namespace}".strip()
