"""MySQL, Kafka and Connect together: up, status, down, reset.

The state file holds ports (kept from run to run, so pipeline files stay valid) and the processes
of the last ``up``. ``up`` starts what does not run and leaves alone what does, so it also mends a
stack of which one part died.

``up``, ``down`` and ``reset`` of a folder take turns, and each reads the state file when it is its turn: by what it said
before, servers that another ``up`` has started since would be leftovers, and killed.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from ingest.lake.files import durability
from ingest.local import artefacts, mysqld, process
from ingest.local.connect import Connect
from ingest.local.kafka import Kafka
from ingest.local.mysql import ADMIN, PIPELINE, MySql
from ingest.local.one_at_a_time import only_one
from ingest.model.errors import Exit, IngestError

PARTS = ("mysql", "kafka", "connect")
_SLOWEST_START = 120.0
_GRACE = {"mysql": 30.0, "kafka": 15.0, "connect": 15.0}
_RESTS_ON = {
    "mysql": ("mysql",),
    "kafka": ("kafka", "connect"),
    "kafka-controller": ("kafka",),
    "connect": ("connect",),
}
"""By port, the parts that were started with it: a worker does not find a broker that has moved."""

Say = Callable[[str], None]


def default_home() -> Path:
    """``$INGEST_HOME``, else ``.ingest`` in the current folder."""
    return Path(os.environ.get("INGEST_HOME", ".ingest")).resolve()


@dataclass(frozen=True)
class Health:
    """What one part of the stack is doing: ``running``, ``starting``, ``died`` or ``stopped``."""

    part: str
    state: str
    pid: int | None
    detail: str

    @property
    def good(self) -> bool:
        """True when the part answers."""
        return self.state == "running"


@dataclass
class Stack:
    """The embedded stack in one folder."""

    home: Path
    ports: dict[str, int] = field(default_factory=dict)
    children: dict[str, process.Child] = field(default_factory=dict)
    exactly_once: bool = True

    @classmethod
    def at(cls, home: Path) -> Stack:
        """The stack of a folder, as its state file remembers it."""
        stack = cls(home.resolve())
        stack._recall()
        return stack

    @property
    def _state_file(self) -> Path:
        return self.home / "state.json"

    @property
    def exists(self) -> bool:
        """True when this folder has held a stack before: a file of another program may be called the same."""
        return self._state_file.exists() and _said(self._state_file) is not None

    def mysql(self) -> MySql:
        """The MySQL of this stack."""
        return MySql(self.home, self.ports["mysql"])

    def kafka(self) -> Kafka:
        """The broker of this stack."""
        return Kafka(self.home, self.ports["kafka"], self.ports["kafka-controller"])

    def connect(self) -> Connect:
        """The Connect worker of this stack."""
        servers = self.kafka().bootstrap_servers
        return Connect(self.home, self.ports["connect"], servers, self.exactly_once)

    def up(
        self,
        chosen_ports: dict[str, int],
        say: Say = lambda _: None,
        server: Path | None = None,
    ) -> None:
        """Start what does not run and wait until all of it answers. ``server``: the ``mysqld`` that is to be run, from the first start on. Raises :class:`IngestError`."""
        artefacts.ensure(["kafka", "connect", "logging"])
        self._prepare_folder()
        with self._turn(say):
            self._start(chosen_ports, say, server)

    def _start(self, chosen_ports: dict[str, int], say: Say, server: Path | None) -> None:
        if not self.exists:
            self._save()  # from here on it is a stack's folder, however far this comes
        self._refuse_other_ports(chosen_ports)
        if server is not None:
            mysqld.chosen(self.home, server)
        self._end_leftovers(say)
        if not self.ports and (self.home / "mysql" / "my.cnf").exists():
            say(
                "state.json no longer says the ports; pipeline files that name the old ones have to be changed"
            )
        self._choose_ports(chosen_ports)
        parts: dict[str, MySql | Kafka | Connect] = {
            "mysql": self.mysql(),
            "kafka": self.kafka(),
            "connect": self.connect(),
        }
        fresh = [part for part in parts if not self._runs(part)]
        for part in fresh:
            for port in [part, f"{part}-controller"]:
                if port in self.ports:
                    process.refuse_busy_port(port, self.ports[port])
        self._save()  # not before: the next `up` would take a port that was refused
        started = time.monotonic()
        for part in fresh:
            if part == "connect":  # a worker that finds no broker gives up after a while
                self._wait_for("kafka", started, say)
            say(f"{part:<8} starting on 127.0.0.1:{self.ports[part]}")
            self.children[part] = parts[part].start()
            self._save()
        for part in parts:  # also those that ran already: they may not answer
            self._wait_for(part, started, say if part in fresh else _nothing)

    def status(self) -> list[Health]:
        """What each part is doing now; one look, no waiting."""
        return [self._health(part) for part in PARTS]

    def down(self, say: Say = lambda _: None) -> None:
        """End every process of the stack, whoever started it. Data stays. Nothing is written where there is no stack."""
        if not self.exists:
            self._end_all(say)  # of a folder that was removed while its servers ran
            return
        with self._turn(say):
            self._end_all(say)
            self._save()

    def stop(self, parts: Collection[str], say: Say = lambda _: None) -> None:
        """End these parts; the others go on."""
        if not self.exists:
            return
        with self._turn(say):
            self._end(parts, say)
            self._save()

    def reset(self, say: Say = lambda _: None) -> bool:
        """Down, then delete the data of all parts (the shared artefact cache stays). False: there is no stack, and
        nothing was deleted. Raises :class:`IngestError` where there is none, and folders are called as a stack's are:
        they are somebody else's.
        """
        if not self.exists:
            self._refuse_other_folders()
            self._end_all(say)
            return False
        with self._turn(say):
            self._end_all(say)
            for name in (*PARTS, "secrets", "logs", "state.json"):
                path = self.home / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            self.ports = {}
        return True

    def _end_all(self, say: Say) -> None:
        self._end(PARTS, say)
        self._end_leftovers(say, keep=False)

    def _end(self, parts: Collection[str], say: Say) -> None:
        for part in reversed(PARTS):
            if part not in parts:
                continue
            child = self.children.pop(part, None)
            if child and child.process():
                process.stop(child, grace=_GRACE[part])
                say(f"{part:<8} stopped")

    def facts(self) -> dict[str, object]:
        """What scripts need to connect: the stable part of ``ingest local status --json``."""
        mysql, connect = self.mysql(), self.connect()
        return {
            "mysql": {
                "host": "127.0.0.1",
                "port": mysql.port,
                "user": ADMIN,
                "password_file": str(mysql.secret(ADMIN)),
                "pipeline_user": PIPELINE,
                "pipeline_password_file": str(mysql.secret(PIPELINE)),
            },
            "kafka": {"bootstrap_servers": self.kafka().bootstrap_servers},
            "connect": {"url": connect.url},
        }

    def resident_bytes(self) -> int:
        """Resident memory of all parts together."""
        found = [child.process() for child in self.children.values()]
        return sum(each.memory_info().rss for each in found if each)

    @contextmanager
    def _turn(self, say: Say) -> Iterator[None]:
        """Nobody else starts or ends parts of this stack meanwhile, and what the last one left is known."""
        with only_one(self.home / "up", say):
            self._recall()
            yield

    def _recall(self) -> None:
        """Take what the state file says, where there is one."""
        said = _said(self._state_file) if self._state_file.exists() else None
        if said is not None:
            known = {one.name for one in fields(process.Child)}  # a later version may say more
            self.ports = said["ports"]
            self.children = {
                part: process.Child(**{name: of[name] for name in of.keys() & known})
                for part, of in said["children"].items()
            }

    def _refuse_other_folders(self) -> None:
        there = [name for name in (*PARTS, "secrets") if (self.home / name).exists()]
        if there:
            raise IngestError(
                "E-LOCAL-HOME",
                f"{self.home} is no folder of an embedded stack: it has no state.json of one. "
                f"Its {' and '.join(there)} would have been deleted.",
                means="Nothing was deleted.",
                remedy="name the stack's folder with `--home`; if this is one that lost its state.json, run `ingest local up` "
                "there first, which writes it anew.",
            )

    def _refuse_other_ports(self, chosen: dict[str, int]) -> None:
        """A part that runs keeps its port until it is stopped."""
        for name, port in chosen.items():
            running = [part for part in _RESTS_ON[name] if self._runs(part)]
            if running and port != self.ports.get(name):
                raise IngestError(
                    "E-LOCAL-PORT",
                    f"{' and '.join(running)} {'runs' if len(running) == 1 else 'run'} already, and the port of {name} is "
                    f"{self.ports.get(name)}, not {port}.",
                    means="Nothing was started, and nothing was changed.",
                    remedy=f"run `ingest local down` first, then `ingest local up --{name}-port {port}`; a pipeline file "
                    "that names the old port has to be changed.",
                )

    def _prepare_folder(self) -> None:
        if self._state_file.exists() and not self.exists:
            raise IngestError(
                "E-LOCAL-HOME",
                f"The file {self._state_file} is of another program.",
                means="Nothing was started.",
                remedy="choose another folder with `--home` or INGEST_HOME.",
            )
        try:
            for name in ("logs", "secrets"):
                (self.home / name).mkdir(parents=True, exist_ok=True)
            (self.home / "secrets").chmod(0o700)
            (self.home / "up.lock").touch()
        except OSError as failure:
            raise IngestError(
                "E-LOCAL-HOME",
                f"The folder {self.home} cannot be written: {failure.strerror}.",
                means="Nothing was started.",
                remedy="choose another with `--home` or INGEST_HOME.",
            ) from None

    def _choose_ports(self, chosen: dict[str, int]) -> None:
        for name in ("mysql", "kafka", "kafka-controller", "connect"):
            if name in chosen:
                self.ports[name] = chosen[name]
            while name not in self.ports:
                port = process.free_port()
                if port not in self.ports.values():
                    self.ports[name] = port

    def _save(self) -> None:
        state = {
            "ports": self.ports,
            "children": {part: child.as_dict() for part, child in self.children.items()},
        }
        fresh = self._state_file.with_suffix(".part")
        fresh.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        durability.contents(fresh)  # else a power cut may leave the name and no content
        fresh.replace(self._state_file)

    def _runs(self, part: str) -> bool:
        child = self.children.get(part)
        return bool(child and child.process())

    def _end_leftovers(self, say: Say, keep: bool = True) -> None:
        known = (
            {child.pid for child in self.children.values() if child.process()} if keep else set()
        )
        for found in process.leftovers(self.home, guests=not keep):
            if found.pid in known or _below(found, known):
                continue
            say(f"ending a leftover of an earlier run: {found.name()} (pid {found.pid})")
            try:
                found.kill()
                found.wait(10)
            except psutil.NoSuchProcess:
                pass

    def _health(self, part: str) -> Health:
        child = self.children.get(part)
        if child is None:
            return Health(part, "stopped", None, "start it with `ingest local up`")
        if child.process() is None:
            return Health(part, "died", child.pid, self._how_it_died(child))
        trouble = getattr(self, part)().healthy()
        return Health(part, "starting" if trouble else "running", child.pid, trouble or "")

    def _how_it_died(self, child: process.Child) -> str:
        code = process.returncode(child)
        how = (
            f" by signal {-code}"
            if code and code < 0
            else f" with exit code {code}"
            if code
            else ""
        )
        return (
            f"pid {child.pid} ended{how}; read {self.home}/logs/{child.part}.log; "
            "`ingest local up` starts it again"
        )

    def _wait_for(self, part: str, started: float, say: Say) -> None:
        wait = Retrying(
            stop=stop_after_delay(_SLOWEST_START),
            wait=wait_fixed(0.2),
            retry=retry_if_result(lambda health: health.state == "starting"),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        health: Health = wait(self._health, part)
        if not health.good:
            raise IngestError(
                "E-LOCAL-START",
                f"{part} did not come up: {health.detail or health.state}.",
                means="The other parts keep running; no data was touched.",
                remedy=f"read {self.home}/logs/{part}.log and {part}.out beside it, mend the "
                "cause, and run `ingest local up` again; `ingest local down` first ends a part that runs and does not "
                "answer.",
                exit_code=Exit.FAILED,
            )
        say(f"{part:<8} healthy after {time.monotonic() - started:.1f} s")


def _said(state: Path) -> dict[str, Any] | None:
    """What a state file says; nothing where a power cut has left it empty or cut off: its servers are leftovers then, and ports are
    chosen anew. None: it is another program's.
    """
    try:
        said = json.loads(state.read_text(encoding="utf-8"))
    except ValueError:
        return {"ports": {}, "children": {}}
    return said if isinstance(said, dict) and {"ports", "children"} <= said.keys() else None


def _nothing(_: str) -> None:
    """Nobody is told of what was so before."""


def _below(found: psutil.Process, known: set[int]) -> bool:
    try:
        return any(parent.pid in known for parent in found.parents())
    except psutil.NoSuchProcess:
        return True
