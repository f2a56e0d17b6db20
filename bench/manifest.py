"""What the manifest costs as a lake grows: its rows, its size, and how long the newest state takes to read.

    PYTHONPATH=. .venv/bin/python -m bench.manifest [--tables 1000] [--touched 10] [--batches 500] [--gaps 10000] [--history 100000]

A drawn history: each batch brings changes to some tables, picked by lot, of all there are. It is published through the real
path, upkeep between, twice: with every row whole and every closed gap kept, as it was before, and as it is now. The long history
is not published batch by batch: its rows are made by the same code and written a thousand a file, as upkeep leaves them; then a job
goes on with it. Without Kafka, MySQL and Spark. What was read is compared with what was published.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable, Schema, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bench import result_file
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import COMPRESSION
from ingest.lake.manifest import next_entry, part_rows
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.lake.manifest.manifest_writer import Publisher
from ingest.lake.manifest.part_rows import Last
from ingest.maintenance.schedule import Maintenance
from ingest.model import manifest
from ingest.model.gap import Gap
from ingest.model.manifest import Entry, HighWater, TableState
from ingest.model.names import Role, app_id, manifest_path
from ingest.model.position import Position
from ingest.schema.delta_types import fields_json

EACH = timedelta(seconds=12)
"""Between batches: a hundred thousand of them are two weeks."""
PER_FILE = 1_000
LOOKS = 7


class World:
    """A drawn history of so many tables, ``touched`` of them in a batch. ``gaps``: closed before it begins."""

    def __init__(self, given: argparse.Namespace, gaps: int, begins: datetime) -> None:
        self._touched, self._draw = given.touched, Random(7)
        names = [f"shop.table_{number:04d}" for number in range(given.tables)]
        places = [(f"shop.{name}", 0) for name in names]
        at, reason = (
            Position(0, 1, 4),
            "records were deleted by the retention before they were applied",
        )
        self._names = names
        self.entry = Entry(
            batch_id=1,
            checkpoint_id="c0ffee00c0ffee00",
            offsets=dict.fromkeys(places, (0, 100)),
            high_water={place: self._mark(1, 100) for place in places},
            tables={name: self._state(name, 1) for name in names},
            changes=100 * len(names),
            rejects=0,
            position=at,
            source_time=begins,
            schema_offset=given.tables,
            started_at=begins,
            seconds=0.5,
            term=1,
            gaps=tuple(
                Gap(
                    names[n % len(names)], places[n % len(names)][0], 0, n, n + 9, reason, n, at, at
                )
                for n in range(gaps)
            ),
            code_version="bench",
        )

    @staticmethod
    def _mark(number: int, end: int) -> HighWater:
        gtid = f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{number}"
        return HighWater(end, Position(0, 1, number), gtid, "AbCdEfGhIjKlMnOpQrStUv")

    @staticmethod
    def _state(name: str, number: int) -> TableState:
        at, first = Position(0, 1, number), Position(0, 1, 1)
        return TableState(
            f"/lake/{name.replace('.', '/')}",
            number,
            changes=100,
            position=at,
            floor=first,
            run="1700000000000",
            snapshot=first,
            id=f"6f0e4c1c-1f0a-4e0c-9b7a-{int(name[-4:]):012x}",
            engine="delta-rs: it fits",
        )

    def batch(self) -> Entry:
        """The next one."""
        before, number = self.entry, self.entry.batch_id + 1
        offsets = {place: (end, end) for place, end in before.ends.items()}
        marks, tables = dict(before.high_water), dict(before.tables)
        for name, state in before.tables.items():
            if state.changes:
                tables[name] = replace(state, changes=0)
        for name in self._draw.sample(self._names, self._touched):
            place, state = (f"shop.{name}", 0), tables[name]
            end = offsets[place][1] + 100
            offsets[place], marks[place] = (end - 100, end), self._mark(number, end)
            version, at = state.version + 1, Position(0, 1, number)
            tables[name] = replace(state, version=version, changes=100, position=at)
        begun = before.started_at + EACH
        entry = replace(
            before,
            batch_id=number,
            offsets=offsets,
            high_water=marks,
            tables=tables,
            changes=100 * self._touched,
            position=Position(0, 1, number),
            source_time=begun,
            started_at=begun,
            stages={"schemas": 0.01, "read": 0.1, "plan": 0.1, "type": 0.1, "apply": 0.2},
        )
        self.entry = next_entry.without_old_gaps(entry, before)
        return self.entry


class Job:
    """Publishes, and keeps the manifest in order between."""

    def __init__(self, lake: Path, term: int = 1, hours: int = 168) -> None:
        self.committer = Committer(term)
        self.publisher = Publisher(cast("SparkSession", None), str(lake), self.committer)
        self.upkeep = Maintenance(str(lake), hours, 10_000, self.committer, "bench")

    def publish(self, entry: Entry) -> float:
        """Returns seconds."""
        app, started = app_id("bench", "c", "_ingest", Role.MANIFEST), time.perf_counter()
        self.publisher.add(entry, Identity(app, entry.batch_id))
        return time.perf_counter() - started

    def keep_up(self) -> float:
        """Returns seconds."""
        started = time.perf_counter()
        self.upkeep.between_batches(self.publisher.opened)
        return time.perf_counter() - started


@contextmanager
def as_before() -> Iterator[None]:
    """Every row whole, every closed gap kept, no row removed."""
    with (
        patch.object(part_rows, "EVERY", 1),
        patch.object(next_entry, "CLOSED_GAPS", 10**9),
        patch.object(Maintenance, "_forget", lambda *_: False),
    ):
        yield


def live(lake: Path) -> tuple[int, int, int]:
    """Bytes, files and rows of the newest version."""
    files = pa.table(DeltaTable(manifest_path(str(lake))).get_add_actions(flatten=True))
    size, rows = (sum(files[name].to_pylist()) for name in ("size_bytes", "num_records"))
    return size, files.num_rows, rows


def packed(lake: Path) -> float:
    """Bytes a row where upkeep has put files together; those of the last few batches stand by themselves."""
    files = pa.table(DeltaTable(manifest_path(str(lake))).get_add_actions(flatten=True)).to_pylist()
    together = [one for one in files if one["num_records"] > 1]
    rows, size = (sum(int(one[of]) for one in together) for of in ("num_records", "size_bytes"))
    return size / max(1, rows)


def looked(lake: Path, expected: Entry) -> float:
    """Seconds that whoever has not looked before takes for the newest state."""
    took = list[float]()
    for _ in range(LOOKS):
        started = time.perf_counter()
        found = Ledger(str(lake)).last()
        took.append(time.perf_counter() - started)
        assert found is not None
        same = replace(found, source_time=None, started_at=expected.started_at)
        assert same == replace(expected, source_time=None), "another state was read"
    return statistics.median(took)


def published(given: argparse.Namespace, folder: Path, gaps: int, batches: int) -> dict[str, Any]:
    """A history through the real path."""
    world, job = World(given, gaps, datetime.now(timezone.utc)), Job(folder)
    job.publish(world.entry)
    took, upkeep, written = list[float](), list[float](), list[int]()
    known = {*Path(manifest_path(str(folder))).glob("*.parquet")}
    for _ in range(batches):
        took.append(job.publish(world.batch()))
        now = {*Path(manifest_path(str(folder))).glob("*.parquet")}
        written.append(sum(file.stat().st_size for file in now - known))
        upkeep.append(job.keep_up())
        known = {*Path(manifest_path(str(folder))).glob("*.parquet")}
    kept, (_, files, _) = packed(folder), live(folder)
    following = Ledger(str(folder))
    following.last()
    followed = list[float]()
    for _ in range(LOOKS):
        job.publish(world.batch())
        started = time.perf_counter()
        assert following.last() is not None
        followed.append(time.perf_counter() - started)
    return {
        "batches": batches,
        "bytes_a_row_written": statistics.mean(written),
        "bytes_a_row_median": statistics.median(written),
        "bytes_a_row_packed": kept,
        "files": files,
        "ms_publish": 1000 * statistics.median(took),
        "ms_publish_mean": 1000 * statistics.mean(took),
        "ms_upkeep_mean": 1000 * statistics.mean(upkeep),
        "ms_newest_cold": 1000 * looked(folder, world.entry),
        "ms_newest_followed": 1000 * statistics.median(followed),
    }


def long_history(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Rows of a long history, then a job that goes on with it."""
    now = datetime.now(timezone.utc)
    world = World(given, given.gaps, now - given.history * EACH)
    text, path = fields_json(manifest.SCHEMA), manifest_path(str(folder))
    schema = to_arrow_schema(StructType.fromJson(text), timezone="UTC")
    DeltaTable.create(path, Schema.from_arrow(schema))
    last: Last | None = None
    total, rows = 0, list[Mapping[str, Any]]()
    for number in range(1, given.history + 1):
        entry = world.batch() if number > 1 else world.entry
        total += entry.changes
        made, last = part_rows.row(entry, last, total)
        rows.append(made)
        if len(rows) == PER_FILE or number == given.history:
            table = pa.Table.from_pylist([*rows], schema=schema)
            write_deltalake(path, table, mode="append", writer_properties=COMPRESSION)
            rows.clear()
            if number % (10 * PER_FILE) == 0:
                print(f"  {number:,} rows of the long history", flush=True)
    size, files, held = live(folder)
    found: dict[str, Any] = {"rows": held, "files": files, "bytes": size}
    found["ms_newest_cold"] = 1000 * looked(folder, world.entry)
    ledger, started = Ledger(str(folder)), time.perf_counter()
    block = ledger.entries(200, below=world.entry.batch_id)
    assert len(block) == 200
    found["ms_block_of_a_start_s_search"] = 1000 * (time.perf_counter() - started)
    started = time.perf_counter()
    assert ledger.total_changes() == total
    found["ms_total"] = 1000 * (time.perf_counter() - started)
    hours = max(1, round(given.history * EACH / timedelta(hours=2)))
    job = Job(folder, 2, hours)  # half of it is to stay
    found["ms_publish_first"] = 1000 * job.publish(replace(world.batch(), term=2))
    found["ms_publish"] = 1000 * statistics.median(
        job.publish(replace(world.batch(), term=2)) for _ in range(LOOKS)
    )
    for _ in range(10):  # one duty a time
        took = job.keep_up()
        if any(one.what == "forgotten" for one in job.upkeep.done()):
            found["ms_forgetting"] = 1000 * took
            break
    size, files, held = live(folder)
    found |= {"rows_after": held, "files_after": files, "bytes_after": size}
    newest = replace(world.entry, term=2)
    found["ms_newest_cold_after"] = 1000 * looked(folder, newest)
    assert Ledger(str(folder)).total_changes() == total + (1 + LOOKS) * 100 * given.touched
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--touched", type=int, default=10)
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--gaps", type=int, default=10_000)
    parser.add_argument("--history", type=int, default=100_000)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for gaps in sorted({0, given.gaps}):
        # A fifth of the batches where each row takes megabytes.
        batches = given.batches if not gaps else max(1, given.batches // 5)
        for who in ("before", "now"):
            with tempfile.TemporaryDirectory(prefix="ingest-bench-") as folder:
                if who == "before":
                    with as_before():
                        one = published(given, Path(folder), gaps, batches)
                else:
                    one = published(given, Path(folder), gaps, batches)
            found[f"{who}, {gaps} closed gaps"] = one
            said = ", ".join(f"{name} {value:,.1f}" for name, value in one.items())
            print(f"{who}, {gaps:,} closed gaps: {said}", flush=True)
    if given.history:
        with tempfile.TemporaryDirectory(prefix="ingest-bench-") as folder:
            found["long history"] = long_history(given, Path(folder))
        said = ", ".join(f"{name} {value:,.1f}" for name, value in found["long history"].items())
        print(f"long history: {said}", flush=True)
    result_file.write(given, "manifest", found=found)


if __name__ == "__main__":
    main()
