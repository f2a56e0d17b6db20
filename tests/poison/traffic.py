"""Steady changes of the busy tables, and a reader that sees when each insert can be read in the lake."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

from bench.freshness import Written, look
from ingest.local.stack import Stack

GRACE = 60.0
"""Seconds after a window in which its last inserts may still arrive: more than a run takes to begin anew."""


@dataclass(frozen=True)
class Fresh:
    """A window: seconds from each insert's commit until it could be read, ascending; ``unseen``: inserts that never were."""

    ages: list[float]
    unseen: int

    def part(self, part: float) -> float:
        """Seconds after which so many of them could be read."""
        return self.ages[min(len(self.ages) - 1, int(len(self.ages) * part))] if self.ages else 0.0

    def __str__(self) -> str:
        lost = f", {self.unseen} not seen" if self.unseen else ""
        return f"{self.part(0.5):.2f} / {self.part(0.99):.2f} s{lost}"


@dataclass
class Traffic:
    """``folder``: where the tables lie in the lake. All of them have ``(id INT PRIMARY KEY, n INT, note VARCHAR(40))``."""

    stack: Stack
    database: str
    folder: Path
    names: tuple[str, ...]
    rate: float
    seed: int
    rows: int
    _seen: list[tuple[float, float]] = field(default_factory=list)
    """When an insert was committed, and after how many seconds it could be read."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _quiet: threading.Event = field(default_factory=threading.Event)
    _idle: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._tables = {name: Written(born=self.rows) for name in self.names}
        self._threads = [threading.Thread(target=run) for run in (self._write, self._read)]

    def start(self) -> None:
        """From here on it is written, until :meth:`close`."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End both threads."""
        self._stop.set()
        self._quiet.clear()
        for thread in self._threads:
            thread.join(60)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nobody writes, so that both sides can be compared."""
        self._quiet.set()
        self._idle.wait(10)
        try:
            yield
        finally:
            self._quiet.clear()

    def window(self, since: float, until: float) -> Fresh:
        """Of what is committed between these moments (``time.monotonic``), once it has arrived or been given time to."""
        while (now := time.monotonic()) < until + GRACE and (
            now < until or self._waiting(since, until)
        ):
            time.sleep(0.2)
        ages = sorted(age for at, age in list(self._seen) if since <= at < until)
        return Fresh(ages, self._waiting(since, until))

    def _waiting(self, since: float, until: float) -> int:
        return sum(
            since <= at < until for one in self._tables.values() for _, at in list(one.unseen)
        )

    def _write(self) -> None:
        rng, begun, done = random.Random(self.seed), time.monotonic(), 0
        with closing(self.stack.mysql().admin()) as connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                if self._quiet.is_set():
                    self._idle.set()
                    self._stop.wait(0.05)
                    begun, done = time.monotonic(), 0
                    continue
                self._idle.clear()
                self._change(cursor, rng)
                done += 1
                ahead = begun + done / self.rate - time.monotonic()
                if ahead > 0:
                    self._stop.wait(ahead)

    def _change(self, cursor: pymysql.cursors.Cursor, rng: random.Random) -> None:
        """One row, in a transaction of its own: three inserts, six updates and a delete in ten."""
        name, kind = rng.choice(self.names), rng.random()
        written = self._tables[name]
        key, at = rng.randrange(1, written.born), f"{self.database}.{name}"
        if kind < 0.3:
            written.born += 1
            cursor.execute(f"INSERT INTO {at} VALUES ({written.born}, 0, 'new')")
            written.unseen.append((written.born, time.monotonic()))
        elif kind < 0.9:
            cursor.execute(f"UPDATE {at} SET n = n + 1, note = 'v{key}' WHERE id = {key}")
        else:
            cursor.execute(f"DELETE FROM {at} WHERE id = {key}")

    def _read(self) -> None:
        while not self._stop.is_set():
            ages = look(self.folder, self._tables)
            now = time.monotonic()
            self._seen.extend((now - age, age) for age in ages)
            self._stop.wait(0.05)
