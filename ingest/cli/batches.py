"""Lines about batches, and about what waits behind them: what `run`, `replay` and their like print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.text import Text

from ingest.batch.batch_report import BatchReport
from ingest.cli.screen import err, say
from ingest.lake.quarantine.waiting_list import Waiting
from ingest.model.counted import counted


class BatchLines:
    """One line per batch on the terminal, and a last one with the sum."""

    def __init__(self) -> None:
        self._batches = 0
        self._changes = 0
        self._rejects = 0

    def report(self, report: BatchReport) -> None:
        """A batch was published."""
        entry = report.entry
        self._batches += 1
        self._changes += entry.changes
        self._rejects += entry.rejects
        touched = sum(1 for state in entry.tables.values() if state.changes)
        line = (
            f"batch {entry.batch_id:>5}  {_column(entry.changes, 9, 'change')}  "
            f"{_column(touched, 4, 'table')}  {entry.seconds:>6.1f} s"
        )
        if entry.resent:
            known = ""
            if entry.remembered:
                known = f", {entry.remembered:,} of them known to Spark's state"
            line += f"  [dim]{entry.resent:,} sent again{known}[/]"
        if entry.rejects:
            line += f"  [bold red]{entry.rejects} to quarantine[/]"
        for done in report.upkeep:
            err.print(f"[dim]{escape(str(done))}[/]")
        err.print(line)

    def total(self, *, once: bool, file: Path) -> None:
        """The run has ended."""
        say(
            f"done: {counted(self._changes, 'change')} in {self._batches:,} {'batch' if self._batches == 1 else 'batches'}"
        )
        if self._rejects:
            say(
                f"{counted(self._rejects, 'change')} went to quarantine, each with its reason; later changes of "
                f"their keys wait behind them: ingest status {file}"
            )
        if once:
            say(f"next: ingest audit {file}")


def _column(many: int, width: int, one: str) -> str:
    """Numbers stand below each other, and so does what comes behind."""
    number, word = counted(many, one).split()
    return f"{number:>{width}} {word:<{len(one) + 1}}"


def waiting_lines(waiting: Sequence[Waiting]) -> Text:
    """What waits in quarantine, a line per table and reason, and what to do."""
    if not waiting:
        return Text("quarantine  nothing waits\n")
    text = Text()
    for one in waiting:
        text.append(
            f"quarantine  {one.table}: {counted(one.changes, 'change')}: {one.reason}\n", "red"
        )
    return text.append(
        "            mend the cause and `ingest replay` (or restart the job), or `ingest resync` the table; "
        "`ingest quarantine` lists, shows and drops them\n"
    )
