"""A lake that a drawn history goes into, by the job's own ``Batches``, in a process that may be killed at any moment.

    LD_PRELOAD=moved_clock.so MOVED_CLOCK=FILE python -m bench.ageing_lake FOLDER --seed 7 --clock FILE --since 1767225600 --tick 12

Goes on from what is in the folder. Reads from its input how many batches it is to apply, and says of each on its output, as a line
of JSON, what it took; ``check`` instead of a number compares every table with the history. Ends with its input.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import struct
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.long_history import TABLES, Change, History
from ingest.job import spark_session
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.manifest import Place
from ingest.testing.debezium import Record
from ingest.testing.lake import Lake, RecordLog

SETTINGS: Mapping[str, Any] = {"history_hours": 1, "history_versions": 200}
"""Of the lake: the shortest that a pipeline file may say, nearly."""


class Clock:
    """The time of day of this process, which goes on by so many seconds with each batch, however long that takes (``moved_clock.c``).
    ``file``: its steps; ``since``: when the first batch began, seconds since 1970.
    """

    _COUNT, _STEP = struct.Struct("=Q"), struct.Struct("=dd")

    def __init__(self, file: Path, since: float, tick: float) -> None:
        with file.open("r+b") as opened:
            self._steps = mmap.mmap(opened.fileno(), 0)
        self._since, self._tick = since, tick

    @classmethod
    def create(cls, file: Path, batches: int) -> None:
        """With room for the steps of so many batches; what there is stays."""
        with file.open("ab") as opened:
            opened.truncate(cls._COUNT.size + 2 * batches * cls._STEP.size)

    def after(self, batch: int) -> None:
        """Move it on to where it is after this batch; never back."""
        (count,) = self._COUNT.unpack_from(self._steps)
        at = self._COUNT.size + count * self._STEP.size
        by = self._STEP.unpack_from(self._steps, at - self._STEP.size)[1] if count else 0.0
        now, wanted = time.time(), self._since + batch * self._tick
        if wanted > now:
            self._STEP.pack_into(self._steps, at, now - by, by + wanted - now)
            self._COUNT.pack_into(self._steps, 0, count + 1)


class Newest(RecordLog):
    """A ``RecordLog`` that keeps the records which are not applied yet, and no others."""

    def __init__(self, session: SparkSession, ends: Mapping[Place, int]) -> None:
        super().__init__(session)
        self._starts = dict(ends)
        self._records = {place: [] for place in ends}

    def between(self, place: Place, start: int, end: int) -> Sequence[Record]:
        """Raises ``AssertionError`` for records that are gone."""
        first = self._starts.get(place, 0)
        assert start >= first, f"{place}: {start} was asked for, {first} is the first that is kept"
        return self._records[place][start - first : end - first]

    def ends(self, topics: Sequence[str] | None = None) -> Mapping[Place, int]:
        """Where partitions end: of these topics, or of all."""
        return {
            place: self._starts.get(place, 0) + len(records)
            for place, records in self._records.items()
            if topics is None or place[0] in topics
        }

    def forget(self, ends: Mapping[Place, int]) -> None:
        """All before these ends, as Kafka's retention does, and what Spark's batches were made of."""
        for place, end in ends.items():
            first = self._starts.get(place, 0)
            del self._records[place][: max(0, end - first)]
            self._starts[place] = max(first, end)
        self.batches[:] = [{}] * len(self.batches)


class Restarted(Lake):
    """A ``Lake`` whose terms go on from one process to the next, as a job's do."""

    def start(self, *, from_beginning: bool = False) -> None:
        """As ``Lake`` does."""
        newest = Ledger(str(self.path)).last()
        self.term = max(self.term, newest.term if newest else 0)
        super().start(from_beginning=from_beginning)


class AgeingLake:
    """The lake, and the history up to where it is."""

    def __init__(self, session: SparkSession, folder: Path, seed: int, ddl_every: int) -> None:
        self.history, self.folder = History(seed, ddl_every), folder
        newest = Ledger(str(folder)).last()
        ends: dict[Place, int] = dict(newest.ends) if newest else {}
        drawn = Counter[Place]()
        defined = list[Change]()
        while any(drawn[place] < end for place, end in ends.items()):
            for change in self.history.next():
                if change.op == "ddl":
                    defined.append(change)
                else:
                    drawn[self.history.topic(change.table), 0] += 1
        assert dict(drawn) == ends, f"the manifest is in the middle of a batch: {ends}, {drawn}"
        self.log = Newest(session, ends)
        for change in defined:
            self._take(change)
        self.bring()  # which is in Kafka when a job starts, and perhaps in some tables
        self.lake = Restarted(session, folder, log=self.log, lake=self._settings())

    def _settings(self) -> dict[str, Any]:
        return {"path": str(self.folder), **SETTINGS}

    def _take(self, change: Change) -> None:
        record = self.history.record(change)
        if change.op == "ddl":
            self.log.define(json.loads(record.value or b""))
        else:
            self.log.add(record)

    def bring(self) -> None:
        """The next batch, as Kafka gets it."""
        for change in self.history.next():
            self._take(change)

    @property
    def is_applied(self) -> bool:
        """True when all that was brought is published."""
        newest = self.lake.batches.newest
        return newest is not None and dict(newest.ends) == dict(self.log.ends())

    def one(self) -> dict[str, Any]:
        """One batch; what it took and what upkeep did meanwhile. ``all``: seconds with upkeep and what goes before, ``seconds``:
        those of the manifest's row.
        """
        if self.is_applied:
            self.bring()
        self.lake.batches.ensure_tables()
        started = time.monotonic()
        self.lake.apply(self.log.ends())
        took = time.monotonic() - started
        newest = self.lake.batches.newest
        assert newest is not None
        assert self.is_applied, f"batch {self.history.number} is not applied: {newest}"
        assert not newest.rejects, f"batch {self.history.number} rejects {newest.rejects} changes"
        assert not newest.gaps, f"batch {self.history.number}: {newest.gaps}"
        self.log.forget(self.log.ends())
        done = [one for report in self.lake.seen for one in report.upkeep]
        self.lake.seen.clear()
        return {
            "batch": self.history.number,
            "all": took,
            "seconds": newest.seconds,
            "stages": dict(newest.stages),
            "upkeep": dict(Counter(one.what for one in done)),
            "failed": [str(one) for one in done if one.what == "failed"],
        }

    def check(self) -> None:
        """Raises ``AssertionError`` where a table is not what the history makes of it."""
        for table in TABLES:
            names = list(self.history.columns[table])
            # By Spark, which alone knows all features that tables have by now.
            found = self.lake.table(f"d.{table}").select(*names).collect()
            rows = Counter(map(tuple, found))
            wanted = Counter(tuple(row[one] for one in names) for row in self.history.rows(table))
            wrong = (rows - wanted) + (wanted - rows)
            assert not wrong, f"{table}: {wrong.total()} rows differ, {list(wrong)[:3]}"


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--ddl-every", type=int, default=150)
    parser.add_argument("--clock", type=Path, required=True)
    parser.add_argument("--since", type=float, required=True)
    parser.add_argument("--tick", type=float, required=True)
    given = parser.parse_args()
    clock = Clock(given.clock, given.since, given.tick)
    # Java goes by the machine's clock: Spark's own waits are by time of day.
    os.environ.pop("LD_PRELOAD", None)
    log = given.folder.with_name(f"{given.folder.name}.spark.log")
    spark = spark_session.create("bench", master="local[2]", driver_memory="1g", conf={}, log=log)
    lake = AgeingLake(spark, given.folder, given.seed, given.ddl_every)
    _say({"started": lake.history.number - (not lake.is_applied), "said": lake.lake.said})
    for line in sys.stdin:
        if line.strip() == "check":
            lake.check()
            _say({"equal": lake.history.number})
            continue
        for _ in range(int(line)):
            _say(lake.one())
            clock.after(lake.history.number)
    spark.stop()


def _say(what: Mapping[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    run()
