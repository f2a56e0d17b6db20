"""Cut the power at every moment of a job, and start from what is left.

    python -m tests.power.matrix [--engine E ...] [--story S ...] [--batches 8] [--seed 1] [--most N]

For each engine a job is recorded (``strace`` sees every write, rename, link and sync of Python, Java and Rust). After each of its
effects on the lake the disk is rebuilt in three ways: what was not synced is lost, kept, or each effect by itself kept, lost or
kept in half. Each such disk that differs from all before is looked through as after a power cut; no batch that was published
before the cut may be gone. Many are one then to whoever starts (``remains.likeness``): from each that is left
the lake is started, brought to the end of the history, and compared with the source.

Three stories: a plain job; one that is killed in the middle of a batch and begun again; one that keeps its tables in order, and
removes old versions.

``--most``: so many disks of each engine, drawn by the seed. Prints each failure with its seed, engine, moment and way, and exits
with 1 where there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pyspark.sql import SparkSession

from ingest.job import spark_session
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.topics import TableId
from ingest.sample.values import exact
from ingest.start import power_cut
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake, RecordLog, pipeline_at
from ingest.testing.source import Table
from tests.power import trace
from tests.power.disk import Disk, Way, held, lay_out
from tests.power.history import SETTINGS, History, give, history
from tests.power.remains import likeness
from tests.support.change_log import folded, log_rows, place
from tests.support.cold import CONF

FOR_HOURS = {name: said for name, said in CONF.items() if name != "spark.driver.defaultJavaOptions"}
"""As for a process that lives for minutes, but with the second compiler: warm, a start takes a tenth less with it."""

Left = dict[str, bytes | None]
"""A disk after a cut: path to content, None for a folder."""

ENGINES = ("delta-rs", "deletion-vectors", "spark")
STORIES = ("plain", "killed", "upkeep")


@dataclass(frozen=True)
class Cut:
    """``moment``: how many effects came before; ``published``: how many batches the job had said were."""

    moment: int
    way: Way
    published: int


def record(folder: Path, engine: str, story: str, seed: int, batches: int) -> list[trace.Event]:
    """What a job does to its lake, which lies in ``folder/lake`` afterwards."""
    lake, log = folder / "lake", folder / "trace"
    lake.mkdir(parents=True)
    # With a filter in the kernel, so that the calls that nobody asked for cost nothing: Java makes very many.
    watch = ["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", str(1 << 26), "-o", str(log)]
    job = [sys.executable, "-m", "tests.power.job", str(lake), engine, str(seed), str(batches)]
    if story == "upkeep":
        job.append("--upkeep")
    if story == "killed":
        place = f"table_committed@{max(batches // 2, 2)}:kill"  # not in the first: it would find no Kafka
        job = ["sh", "-c", f"INGEST_FAILPOINT={place} {shlex.join(job)}; {shlex.join(job)}"]
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


def look_through(cut: Cut, left: Left, drawn: History, folder: Path) -> tuple[bytes, int]:
    """Lay a disk out in a folder, and take back what a start takes back first. Returns what is left to find there, and how
    many batches Kafka has by then. Raises ``AssertionError``, or whatever that raises.
    """
    lay_out(left, folder)
    tables = [TableId.parse(str(table.name)) for table in drawn.tables]
    power_cut.take_back(pipeline_at(folder, **SETTINGS), tables)
    newest = Ledger(str(folder)).last()
    published = newest.batch_id if newest else 0
    assert published >= cut.published, f"{cut.published} were published, {published} are"
    return likeness(folder), cut.published + 1  # with what the job was at


def start_from(session: SparkSession, cut: Cut, drawn: History, folder: Path, engine: str) -> None:
    """Raises ``AssertionError``, or whatever a start raises."""
    settings = {"spark": {"merge_engine": engine}, **SETTINGS}
    log = RecordLog(session)
    for one in drawn.batches[: cut.published + 1]:
        give(log, one)
    lake = Lake(session, folder, log=log, **settings)
    try:
        lake.apply(log.ends())
        rest = [record for one in drawn.batches[cut.published + 1 :] for record in one]
        lake.replay(rest, batches=2, quarantine=True)
        for table in drawn.tables:
            assert_rows(lake.live(table).drop("_ingest"), table.rows)
            if lake.pipeline.logs(table.name):
                refuse_other_log(lake.pipeline.change_log_path(table.name), table)
        count = lake.quarantined().count()
        assert count == drawn.broken, f"{count} in quarantine, not {drawn.broken}"
    finally:
        lake.close()


def refuse_other_log(path: str, table: Table) -> None:
    """Each change of the stream once; folded, the table's keys. What a DDL made of other columns is in no change."""
    rows = log_rows(path)
    streamed = [(*place(row), row["operation"]) for row in rows if row["origin"] == "stream"]
    assert len(streamed) == len(set(streamed)), f"{table.name}'s log has a change twice"
    if table.key:
        found = Counter(dict(image)[one] for image in folded(rows, table.key) for one in table.key)
        wanted = Counter(exact(row[one]) for row in table.rows for one in table.key)
        assert found == wanted, f"{table.name}'s log, folded"


def run(root: Path, engine: str, story: str, given: argparse.Namespace) -> int:
    """Returns how many disks were not started from as they should be."""
    folder = root / f"{engine}-{story}"
    drawn = history(given.seed, given.batches)
    events = record(folder, engine, story, given.seed, given.batches)
    refuse_unlike(events, folder / "lake")
    every = cuts(events, given.seed)
    most = len(every) if given.most is None else min(given.most, len(every))
    some = frozenset(random.Random(given.seed).sample(every, most))
    syncs = sum(event.kind == "sync" for event in events)
    print(
        f"{engine}, {story}: {len(events):,} effects, {syncs:,} of them syncs; {len(every):,} disks, {len(some):,} looked through",
        flush=True,
    )
    session = spark_session.create(
        "power", master="local[2]", driver_memory="2g", conf=FOR_HOURS, log=root / "spark.log"
    )
    failed, began, started = 0, time.monotonic(), set[tuple[bytes, int]]()
    for number, (cut, left) in enumerate(disks(events, given.seed, some)):
        lake = root / "left"
        try:
            found = look_through(cut, left, drawn, lake)
            if found not in started:
                started.add(found)
                start_from(session, cut, drawn, lake, engine)
        except Exception as failure:  # noqa: BLE001  each is a finding, whatever it is
            failed += 1
            said = " ".join(str(failure).split())[:300]
            print(
                f"FAILED: seed {given.seed}, {engine}, {story}, after effect {cut.moment} ({events[cut.moment].kind} "
                f"{events[cut.moment].path}), {cut.way}: {type(failure).__name__}: {said}",
                flush=True,
            )
        finally:
            shutil.rmtree(lake, ignore_errors=True)
        if number % 200 == 199:
            print(
                f"{number + 1} looked through, {len(started)} started from, {failed} failed, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    print(
        f"{engine}, {story}: {len(some):,} disks, {len(started):,} different ones to a start, {failed} failed",
        flush=True,
    )
    return failed


def main() -> int:
    """See above."""
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES)
    asked.add_argument("--story", nargs="+", choices=STORIES, default=STORIES)
    asked.add_argument("--batches", type=int, default=8)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--most", type=int)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as root:
        failed = sum(
            run(Path(root), engine, story, given)
            for engine in given.engine
            for story in given.story
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
