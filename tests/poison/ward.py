"""A stack's one pipeline of eight busy tables and a ninth that is poisoned, and the list of ways to do so."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.kills.faults.act import command, stop
from tests.kills.lab import Lab, LabError
from tests.poison.traffic import Traffic

BUSY = tuple(f"busy{number}" for number in range(8))
SICK = "sick"
ROWS = 1000
"""Of each busy table before it begins."""

Way = Callable[["Ward"], Iterator[None]]
WAYS: dict[str, Way] = {}


def way(act: Way) -> Way:
    """Enter it into the list. It poisons the ninth table, yields, and does what `ingest status` or the docs say helps."""
    WAYS[act.__name__] = act
    return act


STOPPING: set[str] = set()
"""Ways in which the table cannot be left out: the run stops, and is to say at which table and what helps."""


def stopping_way(act: Way) -> Way:
    """Enter it into both lists."""
    STOPPING.add(act.__name__)
    return way(act)


@dataclass
class Ward(Lab):
    """``rate``: changes of all busy tables in a second."""

    rate: float = 200.0
    seed: int = 36
    tables: tuple[str, ...] = (*BUSY, SICK)
    traffic: Traffic = field(init=False)
    _written: int = 100

    def create(self, rows: int = ROWS) -> None:
        """Tables with their first rows."""
        n = self.name
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT"
        self.sql(
            f"DROP DATABASE IF EXISTS {n}",
            f"CREATE DATABASE {n}",
            *[
                statement
                for busy in BUSY
                for statement in (
                    f"CREATE TABLE {n}.{busy} (id INT PRIMARY KEY, n INT, note VARCHAR(40))",
                    f"INSERT INTO {n}.{busy} {numbers} i, 0, 'old' FROM n",
                )
            ],
            f"CREATE TABLE {n}.{SICK} (id INT PRIMARY KEY, n INT, day DATE NOT NULL, big LONGTEXT)",
            f"INSERT INTO {n}.{SICK} {numbers} i, 0, '2024-02-29', 'x' FROM n WHERE i <= 50",
        )

    def begin_all(self) -> None:
        """The job, and the traffic once the lake has the first rows."""
        self.settings["tables"] = {f"{self.name}.{SICK}": {"ddl": {"change_type": "pause"}}}
        self.settings["connect"] = {"settings": {"producer.override.max.request.size": "2000000"}}
        self.prepare(ROWS)
        self.start()
        self.until_equal(300)
        self.traffic = Traffic(
            self.stack, self.name, self.lake / self.name, BUSY, self.rate, self.seed, ROWS
        )
        self.traffic.start()

    def close(self) -> None:
        """End traffic and job."""
        if hasattr(self, "traffic"):
            self.traffic.close()
        super().close()

    # --- the ninth table -----------------------------------------------------------------------

    @property
    def sick(self) -> str:
        """Its name in MySQL."""
        return f"{self.name}.{SICK}"

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.lake / self.name / SICK

    def delta(self) -> DeltaTable:
        """It, as another program has it."""
        return DeltaTable(str(self.path))

    def write(self) -> None:
        """Plain changes of it: an insert, an update, a delete of the insert before."""
        self._written += 1
        key = self._written
        self.sql(
            f"INSERT INTO {self.sick} (id, n, day, big) VALUES ({key}, 1, '2024-02-29', 'new')",
            f"UPDATE {self.sick} SET n = n + 1 WHERE id <= 10",
            f"DELETE FROM {self.sick} WHERE id = {key - 1}",
        )

    def applied(self) -> None:
        """Until what was written of it is published. The busy ones go on."""
        key = self._written
        self.until(
            lambda: any(row["id"] == key for row in self.delta().to_pyarrow_table().to_pylist()),
            "the ninth table being applied",
        )

    # --- the job -------------------------------------------------------------------------------

    def runs(self) -> bool:
        """False once the job has ended by itself."""
        return self.job is not None and self.job.process.poll() is None

    def halt(self) -> None:
        """End the job, where it runs."""
        if self.job is not None:
            stop(self)

    def again(self) -> None:
        """Run again, whether it has ended by itself or not."""
        self.halt()
        self.start()

    def last_words(self) -> str:
        """Why the job has ended."""
        lines = (self.folder / "job.log").read_text(errors="replace").splitlines()
        found = [at for at, line in enumerate(lines) if re.search(r"\bE-[A-Z-]+", line)]
        return " ".join(" ".join(lines[found[-1] if found else -4 :]).split())

    def status(self) -> dict[str, Any]:
        """As machines get it."""
        done = command(self, "status", str(self.file), "--json", check=False)
        found: dict[str, Any] = json.loads(done.stdout or "{}")
        return found

    def told(self) -> str:
        """Every line of `ingest status --all` that names the ninth table, but for its row of the list of all, with those that
        belong to it.
        """
        said, mine = list[str](), False
        for line in command(
            self, "status", str(self.file), "--all", check=False
        ).stdout.splitlines():
            mine = f"{self.name}.{SICK}" in line if line[:1].strip() else mine
            if mine and not line.startswith(self.sick):
                said.append(" ".join(line.split()))
        return " ".join(said)

    def equal(self, seconds: float = 240) -> str:
        """What `ingest audit` says of all nine, while nobody writes: empty once they are equal."""
        with self.traffic.paused():
            deadline, done = time.monotonic() + seconds, None
            try:
                self.until_equal(seconds)
                while time.monotonic() < deadline:
                    done = command(self, "audit", str(self.file), check=False)
                    if done.returncode == 0:
                        return ""
                    time.sleep(2)
            except LabError as failure:
                return str(failure)[:600]
            return f"{done.stdout[-600:]}{done.stderr[-300:]}" if done else "no audit"
