"""The kill matrix: every named place of a batch by phase by victim, each a real SIGKILL.

    python -m tests.kills.matrix --ledger kills.jsonl [--minutes 60] [--only stream:connect] [--store] [--list]

A cell holds the job at its failpoint, writes more at the source (so that changes are unapplied
whatever the place), kills the victim, restarts what died as a supervisor would, and waits until the
lake is what MySQL says; then what its logs say must be true. Cells of one victim run side by side, each with a pipeline and a job of its
own. Results go to the ledger as they come; run it again and it goes on where it stopped. ``--store``: the lake is in an object
store, a real server of which is a victim, too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil

from ingest.local.stack import Stack
from ingest.source.connector import Connector
from tests.kills.lab import Lab, LabError, logs
from tests.support import s3
from tests.support.s3 import S3

LOGS = logs()
LANE = os.environ.get("INGEST_LANE", "")
"""Where changes are read, as the pipeline file of each cell says it."""
SHARE = "share_read"
"""In a Python worker of Spark's tasks, which is a victim there, too."""
VICTIMS = ("driver", "connect", "kafka", "mysql")
PLACES = (
    "batch_started",
    *([SHARE] if LANE == "spark" else []),
    "changes_prepared",
    "quarantine_committed",
    "table_started~{db}.keyed",
    "files_written",
    "step_committed~{db}.keyed",
    "table_committed~{db}.keyed",
    *(
        ["log_started~{db}.keyed", "log_committed~{db}.keyed", "log_committed~{db}.bag"]
        if LOGS
        else []
    ),
    "table_started~{db}.bag",
    "table_committed~{db}.bag",
    "table_started~{db}.emptied",
    "step_committed~{db}.emptied",
    "table_committed~{db}.emptied",
    "table_started~{db}.wide",
    "table_committed~{db}.wide",
    "tables_committed",
    "manifest_committed",
    "offsets_committed",
    "batch_logged",
)
SNAPSHOT_PLACES = (
    "batch_started",
    "changes_prepared",
    "table_started~{db}.keyed",
    "table_committed~{db}.bag",
    *(["log_started~{db}.keyed", "log_committed~{db}.bag"] if LOGS else []),
    "tables_committed",
    "manifest_committed",
    "batch_logged",
)
PATIENCE = 400
"""Seconds until equal, with four cold jobs on two cores."""
SNAPSHOT_ROWS = 1500
SLOW_SNAPSHOT = {"connect": {"settings": {"max.batch.size": "20", "max.queue.size": "40"}}}
"""Small producer transactions, so that a snapshot of some thousand rows takes seconds."""


@dataclass(frozen=True)
class Cell:
    phase: str
    place: str
    victim: str

    def __str__(self) -> str:
        return f"{self.phase}:{self.victim}:{self.place.replace('{db}.', '')}"


def cells(*, store: bool = False) -> list[Cell]:
    """All of them; a victim's cells stand together, since they share a running job."""
    victims = (*VICTIMS, "store") if store else VICTIMS
    streaming = [
        Cell(phase, place, victim)
        for phase in ("stream", "ddl")
        for victim in victims
        for place in PLACES
    ]
    snapshot = [Cell("snapshot", place, victim) for victim in victims for place in SNAPSHOT_PLACES]
    worker = [Cell(phase, SHARE, "worker") for phase in ("stream", "ddl", "snapshot")]
    return [*streaming, *snapshot, *(worker if LANE == "spark" else [])]


@dataclass
class Held:
    """A cell and its laboratory: one pipeline, one job, held at the cell's place."""

    cell: Cell
    lab: Lab
    result: dict[str, object] = field(default_factory=dict)

    @property
    def is_snapshot(self) -> bool:
        return self.cell.phase == "snapshot"

    def hold(self) -> None:
        """Bring about what passes the place: traffic, or a pipeline's first snapshot."""
        self.lab.arm(self.cell.place.format(db=self.lab.name))
        if self.is_snapshot:
            self.lab.start()
        else:
            self.lab.change(ddl=self.cell.phase == "ddl")

    def ready(self) -> None:
        """Reached, and changes are unapplied."""
        self.result["reached"] = self.lab.until_reached()
        for _ in range(20):
            # At `batch_logged` Spark's thread goes on: it may apply the change before we look.
            if not self.is_snapshot:
                self.lab.touch()
            if self.lab.unapplied():
                return
        raise LabError("nothing was unapplied when the victim died")

    def died(self, status: int) -> None:
        self.result["status"] = status
        if status != -9:
            raise LabError(f"{self.cell.victim} ended with {status}, not by SIGKILL")

    def delete_what_was_read(self) -> None:
        """The snapshot that begins again sends no delete for rows that the first attempt sent."""
        name = self.lab.name
        for table in ("keyed", "wide"):
            self.lab.sql(f"DELETE FROM {name}.{table} WHERE id < 300")
        self.lab.sql(f"DELETE FROM {name}.bag WHERE a = 3", f"DELETE FROM {name}.emptied")

    def go_on(self) -> None:
        if self.cell.victim == "driver":
            self.lab.restart("driver")
        if self.is_snapshot:
            self.lab.change()


def run_round(held: list[Held]) -> None:
    """Cells of one victim, side by side: every job stands at its own place when the victim dies.

    What became of each is in its ``result``; a cell that does not come out does not stop the others.
    """
    started = time.monotonic()
    victim, stack = held[0].cell.victim, held[0].lab.stack
    for one in held:
        attempt(one, one.hold)
    for one in held:
        attempt(one, one.ready)
    going = [one for one in held if "why" not in one.result]
    if not going:
        return
    if victim in ("driver", "worker"):
        for one in going:
            status = one.lab.kill(victim)
            attempt(one, lambda one=one, status=status: one.died(status))
    else:
        status = going[0].lab.kill(victim)
        for one in going:
            attempt(one, lambda one=one: one.died(status))
    if victim == "mysql":
        stack.up({})  # nobody deletes from a dead server
    for one in going:
        if one.is_snapshot:
            attempt(one, one.delete_what_was_read)
        one.lab.disarm()
    if victim not in ("driver", "worker"):
        going[0].lab.restart(victim)
    for one in going:
        attempt(one, one.go_on)
    for one in going:
        attempt(one, lambda one=one: one.lab.until_equal(PATIENCE))
        attempt(one, one.lab.refuse_untrue)
        attempt(one, one.lab.refuse_other_logs)
        one.result["seconds"] = round(time.monotonic() - started, 1)


def attempt(one: Held, act: Callable[[], object]) -> None:
    if "why" in one.result:
        return
    try:
        act()
    except Exception as failure:
        traceback.print_exc()
        one.result["why"] = f"{type(failure).__name__}: {failure}"[:800]


def run_cell(lab: Lab, cell: Cell) -> dict[str, object]:
    """One cell on a running, quiet pipeline. Raises :class:`LabError` when it does not come out."""
    one = Held(cell, lab)
    run_round([one])
    if "why" in one.result:
        raise LabError(f"{cell}: {one.result['why']}")
    return one.result


def rounds(missing: list[Cell], width: int) -> Iterator[list[Cell]]:
    """Cells of one phase and victim, ``width`` at a time."""
    for _, group in groupby(missing, key=lambda cell: (cell.phase, cell.victim)):
        alike = list(group)
        for start in range(0, len(alike), width):
            yield alike[start : start + width]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledger", type=Path, default=Path("kills.jsonl"))
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--only", default="", help="prefix of cells, such as stream:driver")
    parser.add_argument("--place", default="", help="part of their places, such as log_")
    parser.add_argument("--side-by-side", type=int, default=4, help="cells that share one kill")
    parser.add_argument("--store", action="store_true", help="the lake in an object store")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    wanted = [
        cell
        for cell in cells(store=given.store)
        if str(cell).startswith(given.only) and given.place in cell.place
    ]
    if given.list:
        print("\n".join(map(str, wanted)))
        return
    done = ledger(given.ledger)
    missing = [cell for cell in wanted if done.get(str(cell), {}).get("outcome") != "equal"]
    print(f"{len(wanted)} cells, {len(wanted) - len(missing)} in the ledger already")
    with tempfile.TemporaryDirectory(prefix="ingest-kills-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.up({}, print)
        store = s3.start(Path(folder) / "s3") if given.store else None
        labs: list[Lab] = []
        try:
            run(Ground(stack, Path(folder), store), missing, given, labs)
        finally:
            for lab in labs:  # a job that lives on would write into the folder that is to go
                lab.close()
            if store:
                store.stop()
            stack.down()
    done = ledger(given.ledger)
    outcomes = [done.get(str(cell), {}).get("outcome", "not run") for cell in wanted]
    print({outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))})
    sys.exit(any(outcome != "equal" for outcome in outcomes))


def ledger(path: Path) -> dict[str, dict[str, object]]:
    """The newest result of each cell."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {entry["cell"]: entry for entry in map(json.loads, lines)}


@dataclass
class Ground:
    """What all labs stand on. ``options``: Java's, of each job."""

    stack: Stack
    folder: Path
    store: S3 | None
    options: str = ""

    def lab(self, name: str, **more: Any) -> Lab:
        return Lab(
            *(self.stack, self.folder / name),
            **{"name": name, "java_options": self.options, "store": self.store, **more},
        )


def run(ground: Ground, missing: list[Cell], given: argparse.Namespace, labs: list[Lab]) -> None:
    """``labs``: those whose jobs may be alive."""
    deadline = time.monotonic() + given.minutes * 60
    ground.options = class_archive(ground)
    for number, cells in enumerate(rounds(missing, given.side_by_side)):
        if time.monotonic() > deadline:
            break
        if cells[0].phase == "snapshot":
            close(labs)
            labs.clear()
            held = [
                Held(cell, snapshotted(ground, f"snap{number}_{i}")) for i, cell in enumerate(cells)
            ]
        else:
            labs += [fresh(ground, f"kill{number}_{i}") for i in range(len(cells) - len(labs))]
            for lab in labs[: len(cells)]:
                lab.until_equal(PATIENCE)
            held = [Held(cell, lab) for cell, lab in zip(cells, labs, strict=False)]
        run_round(held)
        for one in held:
            record(given.ledger, one)
            if one.is_snapshot or "why" in one.result:
                close([one.lab])
        labs[:] = [lab for lab in labs if lab.job is not None]
        ground.stack.up({})
    close(labs)


def record(ledger_file: Path, one: Held) -> None:
    outcome = "failed" if "why" in one.result else "equal"
    result = {"cell": str(one.cell), **one.result, "outcome": outcome}
    with ledger_file.open("a") as file:
        file.write(json.dumps(result) + "\n")
    print(f"{one.cell!s:<44} {outcome:<8} {one.result.get('seconds', '')}", flush=True)


def close(labs: list[Lab]) -> None:
    """Stop the jobs and take their connectors away: the machine is for the next cells."""
    for lab in labs:
        lab.close()
        Connector(lab.pipeline()).delete()


def class_archive(ground: Ground) -> str:
    """A whole run that leaves an archive of Spark's classes; the Java options to start with it.

    A hundred starts follow, and a sixth of each is reading classes.
    """
    archive = ground.folder / "spark.jsa"
    lab = ground.lab("archive", java_options=f"-XX:ArchiveClassesAtExit={archive}")
    lab.prepare()
    job = lab.start("--once")
    java = None
    while job.process.poll() is None:
        java = next(iter(psutil.Process(job.process.pid).children()), java)
        time.sleep(0.5)
    if java is not None:
        java.wait(300)  # it writes the archive when the job has ended
    close([lab])
    return f"-XX:SharedArchiveFile={archive}"


def snapshotted(ground: Ground, name: str) -> Lab:
    """A pipeline that has not begun: its snapshot is what is killed."""
    lab = ground.lab(name, settings=SLOW_SNAPSHOT)
    lab.prepare(rows=SNAPSHOT_ROWS)
    return lab


def fresh(ground: Ground, name: str) -> Lab:
    """A pipeline that is about to take its snapshot."""
    lab = ground.lab(name)
    lab.prepare()
    lab.start()
    return lab


if __name__ == "__main__":
    main()
