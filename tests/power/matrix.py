"""Cut the power at every moment of a job, and start from what is left.

    python -m tests.power.matrix [--engine E ...] [--batches 8] [--seed 1] [--most N]

For each engine a job is recorded (``strace`` sees every write, rename, link and sync of Python, Java and Rust). After each of its
effects on the lake the disk is rebuilt in three ways: what was not synced is lost, kept, or each effect by itself kept, lost or
kept in half. From each such disk that differs from all before, the lake is started as after a power cut, brought to the end of
the history, and compared with the source. No batch that was published before the cut may be gone.

``--most``: so many disks of each engine, drawn by the seed. Prints each failure with its seed, engine, moment and way, and exits
with 1 where there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pyspark.sql import SparkSession

from ingest.job import spark_session
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.topics import TableId
from ingest.start import power_cut
from ingest.testing.debezium import Record
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake, RecordLog, pipeline_at
from tests.power import trace
from tests.power.disk import Disk, Way, held, lay_out
from tests.power.history import SETTINGS, History, history

Left = dict[str, bytes | None]
"""A disk after a cut: path to content, None for a folder."""

ENGINES = ("delta-rs", "deletion-vectors", "spark")


@dataclass(frozen=True)
class Cut:
    """``moment``: how many effects came before; ``published``: how many batches the job had said were."""

    moment: int
    way: Way
    published: int


def record(folder: Path, engine: str, seed: int, batches: int) -> list[trace.Event]:
    """What a job does to its lake, which lies in ``folder/lake`` afterwards."""
    lake, log = folder / "lake", folder / "trace"
    lake.mkdir(parents=True)
    # With a filter in the kernel, so that the calls that nobody asked for cost nothing: Java makes very many.
    watch = ["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", str(1 << 26), "-o", str(log)]
    job = [sys.executable, "-m", "tests.power.job", str(lake), engine, str(seed), str(batches)]
    done = subprocess.run([*watch, "-e", f"trace={trace.CALLS}", *job], check=False)
    if done.returncode:
        raise RuntimeError(f"the job ended with {done.returncode}: {folder / 'job.log'}")
    with log.open(encoding="ascii") as lines:
        return list(trace.events(lines, str(lake)))


def refuse_unlike(events: Sequence[trace.Event], lake: Path) -> None:
    """Raise when the effects do not come to what really lies there: something was not seen, or not understood."""
    disk = Disk()
    for event in events:
        disk.take(event)
    found, there = disk.after("kept", random.Random(0)), dict(held(lake))
    for path in sorted({*found, *there}):
        if found.get(path, b"-") != there.get(path, b"-"):
            raise RuntimeError(f"{path} is not what the trace makes of it")


def cuts(events: Sequence[trace.Event], seed: int) -> list[Cut]:
    """Those of which the disk differs from all before."""
    seen, found = set[bytes](), list[Cut]()
    for cut, content in _disks(events, seed):
        digest = hashlib.sha256()
        for path, inside in content.items():
            digest.update(repr((path, inside is None, len(inside or b""))).encode())
            digest.update(inside or b"")
        if digest.digest() not in seen:
            seen.add(digest.digest())
            found.append(cut)
    return found


def disks(
    events: Sequence[trace.Event], seed: int, wanted: Collection[Cut]
) -> Iterator[tuple[Cut, Left]]:
    """What these leave, one after the other: all of them at once would not fit into memory."""
    for cut, content in _disks(events, seed, {one.moment for one in wanted}):
        if cut in wanted:
            yield cut, content


def _disks(
    events: Sequence[trace.Event], seed: int, moments: Collection[int] | None = None
) -> Iterator[tuple[Cut, Left]]:
    disk, published = Disk(), 0
    for moment, event in enumerate(events):
        disk.take(event)
        if event.kind == "mark":
            published = int(event.data)
        if moments is None or moment in moments:
            for way in get_args(Way):
                cut = Cut(moment, way, published)
                yield cut, disk.after(way, random.Random(f"{seed} {moment}"))


def start_from(
    session: SparkSession, cut: Cut, left: Left, drawn: History, folder: Path, engine: str
) -> None:
    """Raises ``AssertionError``, or whatever a start raises."""
    lay_out(left, folder)
    settings = {"spark": {"merge_engine": engine}, **SETTINGS}
    tables = [TableId.parse(str(table.name)) for table in drawn.tables]
    power_cut.take_back(pipeline_at(folder, **settings), tables)
    newest = Ledger(str(folder)).last()
    published = newest.batch_id if newest else 0
    assert published >= cut.published, f"{cut.published} were published, {published} are"
    log = RecordLog(session)
    for one in drawn.batches[: cut.published + 1]:  # Kafka has what the job was at
        give(log, one)
    lake = Lake(session, folder, log=log, **settings)
    try:
        lake.apply(log.ends())
        rest = [record for one in drawn.batches[cut.published + 1 :] for record in one]
        lake.replay(rest, batches=2, quarantine=True)
        for table in drawn.tables:
            assert_rows(lake.live(table).drop("_ingest"), table.rows)
        count = lake.quarantined().count()
        assert count == drawn.broken, f"{count} in quarantine, not {drawn.broken}"
    finally:
        lake.close()


def give(log: RecordLog, records: Sequence[Record]) -> None:
    """Records come to Kafka."""
    for record in records:
        if record.topic == "p":
            log.define(json.loads(record.value or b"{}"))
        else:
            log.add(record)


def run(root: Path, engine: str, given: argparse.Namespace) -> int:
    """Returns how many disks were not started from as they should be."""
    folder = root / engine
    drawn = history(given.seed, given.batches)
    events = record(folder, engine, given.seed, given.batches)
    refuse_unlike(events, folder / "lake")
    every = cuts(events, given.seed)
    most = len(every) if given.most is None else min(given.most, len(every))
    some = frozenset(random.Random(given.seed).sample(every, most))
    syncs = sum(event.kind == "sync" for event in events)
    print(
        f"{engine}: {len(events):,} effects, {syncs:,} of them syncs; {len(every):,} disks, {len(some):,} started from"
    )
    session = spark_session.create(
        "power", master="local[2]", driver_memory="2g", conf={}, log=root / "spark.log"
    )
    failed, began = 0, time.monotonic()
    for number, (cut, left) in enumerate(disks(events, given.seed, some)):
        lake = root / "left"
        try:
            start_from(session, cut, left, drawn, lake, engine)
        except Exception as failure:  # noqa: BLE001  each is a finding, whatever it is
            failed += 1
            said = " ".join(str(failure).split())[:300]
            print(
                f"FAILED: seed {given.seed}, {engine}, after effect {cut.moment} ({events[cut.moment].kind} "
                f"{events[cut.moment].path}), {cut.way}: {type(failure).__name__}: {said}",
                flush=True,
            )
        finally:
            shutil.rmtree(lake, ignore_errors=True)
        if number % 50 == 49:
            print(
                f"{number + 1} started from, {failed} failed, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    print(f"{engine}: {len(some):,} disks, {failed} failed")
    return failed


def main() -> int:
    """See above."""
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES)
    asked.add_argument("--batches", type=int, default=8)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--most", type=int)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as root:
        failed = sum(run(Path(root), engine, given) for engine in given.engine)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
