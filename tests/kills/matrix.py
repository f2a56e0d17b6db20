"""The kill matrix: every named place of a batch by phase by victim, each a real SIGKILL.

    python -m tests.kills.matrix --ledger kills.jsonl [--minutes 60] [--only stream:worker] [--list]

A cell holds the job at its failpoint, writes more at the source (so that changes are unapplied
whatever the place), kills the victim, restarts what died as a supervisor would, and waits until the
lake is what MySQL says. Results go to the ledger as they come; run it again and it goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from ingest.local.stack import Stack
from tests.kills.lab import Lab, LabError

VICTIMS = ("driver", "connect", "kafka", "mysql")
PLACES = (
    "batch_started",
    "changes_prepared",
    "quarantine_committed",
    "table_started~{db}.keyed",
    "step_committed~{db}.keyed",
    "table_committed~{db}.keyed",
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
    "tables_committed",
    "manifest_committed",
    "batch_logged",
)
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


def cells() -> list[Cell]:
    """All of them; a victim's cells stand together, since they share a running job."""
    streaming = [
        Cell(phase, place, victim)
        for phase in ("stream", "ddl")
        for victim in VICTIMS
        for place in PLACES
    ]
    snapshot = [Cell("snapshot", place, victim) for victim in VICTIMS for place in SNAPSHOT_PLACES]
    return [*streaming, *snapshot]


def run_cell(lab: Lab, cell: Cell) -> dict[str, object]:
    """One cell on a running, quiet pipeline. Raises :class:`LabError` when it does not come out."""
    started = time.monotonic()
    ddl = cell.phase == "ddl"
    lab.arm(cell.place.format(db=lab.name))
    lab.change(ddl=ddl)
    place = lab.until_reached()
    lab.touch()
    unapplied = lab.unapplied()
    if not unapplied:
        raise LabError("nothing was unapplied when the victim died")
    status = lab.kill(cell.victim)
    if status != -9:
        raise LabError(f"{cell.victim} ended with {status}, not by SIGKILL")
    lab.disarm()
    lab.restart(cell.victim)
    lab.until_equal()
    return {"reached": place, "status": status, "seconds": round(time.monotonic() - started, 1)}


def run_snapshot_cell(stack: Stack, folder: Path, cell: Cell, number: int) -> dict[str, object]:
    """A pipeline of its own, killed while its snapshot comes; rows it has read are deleted."""
    started = time.monotonic()
    lab = Lab(stack, folder / f"snap{number}", name=f"snap{number}", settings=SLOW_SNAPSHOT)
    lab.create(rows=SNAPSHOT_ROWS)
    lab.write_pipeline()
    try:
        lab.arm(cell.place.format(db=lab.name))
        lab.start()
        place = lab.until_reached()
        if not lab.unapplied():
            raise LabError("nothing was unapplied when the victim died")
        status = lab.kill(cell.victim)
        if status != -9:
            raise LabError(f"{cell.victim} ended with {status}, not by SIGKILL")
        if cell.victim == "mysql":
            lab.stack.up({})
        for table in ("keyed", "wide"):  # rows that the snapshot has read already
            lab.sql(f"DELETE FROM {lab.name}.{table} WHERE id < 300")
        lab.sql(f"DELETE FROM {lab.name}.bag WHERE a = 3", f"DELETE FROM {lab.name}.emptied")
        lab.disarm()
        lab.restart(cell.victim)
        lab.change()
        lab.until_equal(240)
        return {"reached": place, "status": status, "seconds": round(time.monotonic() - started, 1)}
    finally:
        lab.close()
        forget(lab)


def forget(lab: Lab) -> None:
    """Take the pipeline out of Connect, so that the next cell has the machine to itself."""
    from ingest.connector import Connector

    Connector(lab.pipeline()).delete()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledger", type=Path, default=Path("kills.jsonl"))
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--only", default="", help="prefix of cells, such as stream:driver")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    wanted = [cell for cell in cells() if str(cell).startswith(given.only)]
    if given.list:
        print("\n".join(map(str, wanted)))
        return
    done = ledger(given.ledger)
    missing = [cell for cell in wanted if done.get(str(cell), {}).get("outcome") != "equal"]
    print(f"{len(wanted)} cells, {len(wanted) - len(missing)} in the ledger already")
    with tempfile.TemporaryDirectory(prefix="ingest-kills-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.up({}, print)
        try:
            run(stack, Path(folder), missing, given)
        finally:
            stack.down()
    done = ledger(given.ledger)
    outcomes = [done.get(str(cell), {}).get("outcome", "not run") for cell in wanted]
    print({outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))})
    sys.exit(any(outcome != "equal" for outcome in outcomes))


def ledger(path: Path) -> dict[str, dict[str, object]]:
    """The newest result of each cell."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {entry["cell"]: entry for entry in map(json.loads, lines)}


def run(stack: Stack, folder: Path, missing: list[Cell], given: argparse.Namespace) -> None:
    deadline = time.monotonic() + given.minutes * 60
    lab: Lab | None = None
    for number, cell in enumerate(missing):
        if time.monotonic() > deadline:
            break
        result: dict[str, object] = {"cell": str(cell)}
        try:
            if cell.phase == "snapshot":
                if lab is not None:
                    lab.close()
                    lab = None
                result |= run_snapshot_cell(stack, folder, cell, number)
            else:
                lab = lab or fresh(stack, folder, number)
                result |= run_cell(lab, cell)
            result["outcome"] = "equal"
        except Exception as failure:
            result |= {"outcome": "failed", "why": f"{type(failure).__name__}: {failure}"[:800]}
            traceback.print_exc()
            if lab is not None:
                lab.close()
                lab = None
            stack.up({})
        with given.ledger.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(
            f"{number + 1:>4}/{len(missing)}  {cell!s:<44} {result['outcome']:<8} {result.get('seconds', '')}",
            flush=True,
        )
    if lab is not None:
        lab.close()


def fresh(stack: Stack, folder: Path, number: int) -> Lab:
    """A pipeline that has taken its snapshot and is quiet."""
    lab = Lab(stack, folder / f"lab{number}", name=f"kill{number}")
    lab.create()
    lab.write_pipeline()
    lab.disarm()
    lab.start()
    lab.until_equal()
    return lab


if __name__ == "__main__":
    main()
