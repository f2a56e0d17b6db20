"""What an audit of change logs found: values, and how a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


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
    return bool(results) and all(one.note.startswith("not compared: ") for one in results)


def log_verdict_table(results: Sequence[LogResult]) -> Group:
    """A line per log, what differs, and a headline."""
    if not results:
        return Group(Text("no table has a change log", style="dim"))
    table = Table(box=None, pad_edge=False)
    table.add_column("change log of")
    for name in ("changes", "rows compared", "differences"):
        table.add_column(name, justify="right")
    for one in results:
        note = f" ({one.note})" if one.note else ""
        numbers = (f"{one.changes:,}", f"{one.compared:,}", f"{one.differences:,}{note}")
        table.add_row(Text(one.name), *numbers, style="red" if one.differences else "")
    parts: list[RenderableType] = [table]
    parts += [
        Text(f"  {one.name}  {key}: {found}", style="red")
        for one in results
        for key, found in one.examples
    ]
    if differ(results):
        parts.append(Text("DIFFERENT: a change log, folded, is not its table", style="bold red"))
        parts.append(
            Text(
                "what to do: `ingest resync FILE TABLE` puts both right; the log says `resync` of what it brings"
            )
        )
    elif is_idle(results):
        parts.append(Text("NOT COMPARED: none of the change logs could be", style="bold yellow"))
    else:
        parts.append(Text("EQUAL: each change log, folded, is its table", style="bold green"))
    return Group(*parts)
