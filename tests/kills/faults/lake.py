"""Faults in the lake: tables, checkpoint, other writers."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deltalake import DeltaTable

from ingest.model.manifest import Entry
from tests.kills.faults.act import another, command, expect, fault, restart, said, stop, versions
from tests.kills.lab import Lab


@fault
def table_restored(lab: Lab) -> str:
    """RESTORE to an older version while the job runs: noticed, and applied again from Kafka."""
    lab.change()
    lab.until_equal()
    table = DeltaTable(str(lab.lake / lab.name / "keyed"))
    table.restore(max(1, table.version() - 4))
    lab.touch()
    lab.until_equal(240)
    expect("restored" in said(lab), "nobody noticed")
    return "equal"


@fault
def table_dropped(lab: Lab) -> str:
    stop(lab)
    shutil.rmtree(lab.lake / lab.name / "emptied")
    shutil.rmtree(lab.lake / lab.name / "bag")
    lab.change()
    restart(lab)
    return "equal"


def _older(lab: Lab, *folders: str) -> list[tuple[Path, Path]]:
    """Copies of folders of the lake, made while the job stands still; after that, the job makes several batches."""
    stop(lab)
    pairs = []
    for name in folders:
        folder, copy = lab.lake / name, lab.folder / "older" / name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        pairs.append((folder, copy))
    lab.start()
    for _ in range(3):
        lab.change()
        lab.until_equal()
    stop(lab)
    return pairs


def _bring_back(pairs: list[tuple[Path, Path]]) -> None:
    for folder, copy in pairs:
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)


@fault
def table_of_an_older_copy(lab: Lab) -> str:
    """Tables' folders from a backup, with and without a key: noticed, and gone on with from Kafka."""
    known = len(lab.entry().gaps)
    _bring_back(_older(lab, f"{lab.name}/keyed", f"{lab.name}/bag"))
    lab.change()
    restart(lab)
    expect("keyed is older than the manifest says" in said(lab), "nobody noticed")
    expect(len(lab.entry().gaps) == known, "Kafka had all of it, and it was taken again")
    return "equal"


@fault
def last_commits_lost(lab: Lab) -> str:
    """Killed, and the newest commit of three tables is gone, as with the power: the batch is made of them once more."""
    lab.change()
    lab.until_equal()
    lab.kill("driver")
    before = versions(lab)
    for table in ("keyed", "bag", "wide"):
        log = lab.lake / lab.name / table / "_delta_log"
        for file in log.glob(f"*{before[table]:020d}.*"):
            file.unlink()
        lost = DeltaTable(str(lab.lake / lab.name / table)).version()
        expect(lost < before[table], f"{table} is at {lost} still")
    lab.change()
    restart(lab)
    expect("wide is older than the manifest says" in said(lab), "nobody noticed")
    return "equal"


@fault
def manifest_of_an_older_copy(lab: Lab) -> str:
    """The manifest from a backup, of several batches before: the tables go back to it, and what came since is read again."""
    known = len(lab.entry().gaps)
    _bring_back(_older(lab, "_ingest/manifest"))
    lab.change()
    restart(lab)
    expect("the manifest is older than the tables" in said(lab), "nobody noticed")
    expect(len(lab.entry().gaps) == known, "Kafka had all of it, and it was taken again")
    lab.change()
    restarted = lab.entry().batch_id
    lab.until_equal()
    expect(lab.entry().batch_id > restarted, "it does not go on")
    return "equal"


@fault
def lake_of_an_older_copy(lab: Lab) -> str:
    """A copy of a running lake: some tables are of before the manifest, the manifest is of before the others."""
    older = _older(lab, f"{lab.name}/keyed", f"{lab.name}/copies")
    lab.start()
    newer = _older(lab, "_ingest/manifest", "_ingest/checkpoint")
    _bring_back([*older, *newer])
    lab.change()
    restart(lab)
    return "equal"


@fault
def another_writer(lab: Lab) -> str:
    """That table stands still with the version to go back to, the others go on; that done, all is well."""
    stop(lab)
    path = str(lab.lake / lab.name / "wide")
    known = lab.entry().tables[f"{lab.name}.wide"].version
    DeltaTable(path).delete("id = 1")
    lab.change()
    done = command(lab, "run", str(lab.file), "--once", check=False)
    expect(done.returncode == 4 and "E-TABLE-STOPPED" in done.stderr, done.stderr)
    expect(f"VERSION AS OF {known}" in done.stderr, done.stderr)
    expect(set(lab.differences()) == {"wide"}, "the others did not go on")
    DeltaTable(path).restore(known)
    lab.change()
    restart(lab)
    return "it stood still, the others went on; then equal"


@fault
def checkpoint_deleted(lab: Lab) -> str:
    """R5, at ten random moments: killed in the middle of a batch or not, then no checkpoint."""
    times = int(os.environ.get("INGEST_CHECKPOINTS", "2"))
    rng = random.Random(5)
    for _ in range(times):
        lab.change()
        time.sleep(rng.uniform(0, 4))
        lab.kill("driver")
        shutil.rmtree(lab.lake / "_ingest" / "checkpoint", ignore_errors=True)
        lab.change()
        restart(lab)
    return f"equal after each of {times}"


@fault
def checkpoint_torn(lab: Lab) -> str:
    """An empty offsets file, a torn commit, a missing metadata file: said, and mended."""
    for name in ("offsets", "commits", "metadata"):
        lab.change()
        lab.until_equal()
        lab.kill("driver")
        folder = lab.lake / "_ingest" / "checkpoint"
        if name == "metadata":
            (folder / name).unlink()
        else:
            newest = max((p for p in (folder / name).iterdir() if p.name.isdigit()), key=_number)
            newest.write_text("v1\n{")
        for crc in (folder / name).parent.rglob(".*.crc"):
            crc.unlink()
        lab.change()
        restart(lab)
        expect("cannot be used" in said(lab), "nobody said what was wrong")
    return "equal"


def _number(path: Path) -> int:
    return int(path.name)


@fault
def commits_deleted(lab: Lab) -> str:
    """The newest commits/N is gone at every start: the batch comes again and changes nothing."""
    for _ in range(2):
        lab.change()
        lab.until_equal()
        lab.kill("driver")
        before = versions(lab)
        folder = lab.lake / "_ingest" / "checkpoint" / "commits"
        newest = max((p for p in folder.iterdir() if p.name.isdigit()), key=_number)
        newest.unlink()
        (folder / f".{newest.name}.crc").unlink(missing_ok=True)
        restart(lab)
        expect(versions(lab) == before, "a replay changed a table")
    return "equal, no new version"


@fault
def from_the_beginning(lab: Lab) -> str:
    """R4: every topic again, under a new checkpoint: no content changes, no version appears."""
    lab.change()
    lab.until_equal()
    stop(lab)
    before, batch = versions(lab), lab.entry().batch_id
    lab.start("--from-beginning")
    lab.until(lambda: _caught_up(lab, batch), "reading all of it again", 240)
    lab.until_equal()
    expect(versions(lab) == before, f"{before} became {versions(lab)}")
    return f"equal, no new version; {lab.entry().resent} changes recognised in the last batch"


def _caught_up(lab: Lab, batch: int) -> bool:
    entry: Entry | None = lab.entry()
    return entry is not None and entry.batch_id > batch + 1


@contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    """A disk of 64 MB there; False where this user may mount none."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(filler: Path) -> None:
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def _refuse_parts(lab: Lab) -> None:
    left = [str(one) for one in lab.lake.rglob("*.part")]
    expect(not left, f"left behind: {left}")


@fault
def disk_full(lab: Lab) -> str:
    """Full under a job and freed, full until the job's tries are spent, full at a start."""
    full = "No space left on device"
    with _small_disk(lab.folder / "small" / "lake") as mounted:
        if not mounted:
            return "NOT RUN: this user may mount no disk"
        with another(lab, "small") as other:
            filler, before = other.lake / "filler", len(said(other))
            _fill(filler)
            other.change()
            other.until(lambda: full in said(other)[before:], "noticing that the disk is full")
            time.sleep(8)  # some beats of the lease
            filler.unlink()
            other.until_equal(300)
            _refuse_parts(other)
            job = other.job
            assert job is not None
            before = len(said(other))
            _fill(filler)
            other.change()
            status = job.process.wait(300)
            other.job = None
            told = said(other)[before:]
            expect(
                status == 4 and "E-DISK-FULL" in told and full in told, f"{status}: {told[-800:]}"
            )
            expect("Traceback" not in told, told[-3000:])
            done = command(other, "run", str(other.file), "--once", check=False)
            expect(done.returncode == 2 and "E-DISK-FULL" in done.stderr, done.stderr)
            expect(full in done.stderr and "Traceback" not in done.stderr, done.stderr)
            filler.unlink()
            restart(other)
            _refuse_parts(other)
    return "equal after each; it was said what is full"
