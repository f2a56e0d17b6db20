"""What an audit of change logs found: values, and how a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

NOT_COMPARED = "not compared: "
"""How the note of a log begins of which nothing was."""


@dataclass(frozen=True)
class LogResult:
    """One change log. ``changes``: its rows; ``compared``: keys of its table (contents, of one without a key) that were held against the log, folded;
    ``differences``: those that are not the same; ``examples``: some of them, each with what was found.
    """

    name: str
    changes: int = 0
    compared: int = 0
    differences: int = 0
    examples: tuple[tuple[str, str], ...] = ()
    note: str = ""

    @property
    def is_compared(self) -> bool:
        """False where nothing of it was; the note says why."""
        return not self.note.startswith(NOT_COMPARED)

    def as_json(self) -> dict[str, object]:
        """Its shape in ``ingest audit --json``."""
        return {
            "name": self.name,
            "changes": self.changes,
            "compared": self.compared,
            "differences": self.differences,
            "note": self.note,
            "examples": [{"key": key, "found": found} for key, found in self.examples],
        }


def differ(results: Sequence[LogResult]) -> bool:
    """Whether any log is not its table."""
    return any(one.differences for one in results)


def is_idle(results: Sequence[LogResult]) -> bool:
    """Whether there are logs, and none of them could be compared."""
    return bool(results) and not any(one.is_compared for one in results)


def log_verdict_table(results: Sequence[LogResult]) -> Group:
    """A line per log, what differs, what was not compared and why, and a headline."""
    if not results:
        return Group(Text("no table has a change log", style="dim"))
    table = Table(box=None, pad_edge=False)
    table.add_column("change log of")
    for name in ("changes", "rows compared", "differences"):
        table.add_column(name, justify="right")
    for one in results:
        found = (f"{one.compared:,}", f"{one.differences:,}") if one.is_compared else ("-", "-")
        changes = f"{one.changes:,}" if one.changes else "-"
        table.add_row(Text(one.name), changes, *found, style="red" if one.differences else "")
    parts: list[RenderableType] = [table]
    parts += [
        Text(f"  {one.name}  {key}: {found}", style="red")
        for one in results
        for key, found in one.examples
    ]
    parts += [Text(f"  {one.name}  {one.note}", style="yellow") for one in results if one.note]
    parts.append(_headline(results))
    if differ(results):
        helps = (
            "`ingest resync FILE TABLE` puts both right; the log says `resync` of what it brings"
        )
        parts.append(Text(f"what to do: {helps}"))
    return Group(*parts)


def _headline(results: Sequence[LogResult]) -> Text:
    done = sum(one.is_compared for one in results)
    if differ(results):
        return Text("DIFFERENT: a change log, folded, is not its table", style="bold red")
    if not done:
        return Text("NOT COMPARED: none of the change logs could be", style="bold yellow")
    some = "" if done == len(results) else f" that could be compared ({done} of {len(results)})"
    return Text(f"EQUAL: each change log{some}, folded, is its table", style="bold green")
