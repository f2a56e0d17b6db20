"""An audit's verdict for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ingest.observe.verdict import Verdict

_HEADLINES = {
    "equal": ("green", "EQUAL: the lake holds exactly what MySQL holds"),
    "different": ("red", "DIFFERENT: the lake does not hold what MySQL holds"),
    "moving": ("yellow", "MOVING: no position was had that both sides had reached"),
    "behind": ("yellow", "BEHIND: the lake has not reached MySQL's position"),
}
_REMEDIES = {
    "moving": "pause the writers for a moment, or give it longer with --wait",
    "behind": "start `ingest run FILE` (or run it with --once), then audit again",
}


def verdict_table(verdict: Verdict) -> Group:
    """Headline, a line per table, and the keys that differ."""
    colour, headline = _HEADLINES[verdict.outcome]
    parts: list[RenderableType] = []
    if verdict.tables:
        table = Table(box=None, pad_edge=False)
        table.add_column("table")
        for name in ("source rows", "lake rows", "differences"):
            table.add_column(name, justify="right")
        for row in verdict.tables:
            style = "red" if row.differences else ""
            more = "+" if row.at_least else ""
            table.add_row(
                Text(row.name),
                f"{row.source_rows:,}",
                f"{row.lake_rows:,}",
                Text(
                    f"{row.differences:,}{more}"
                    + (f" ({row.kept:,} only in the lake by {row.keeps})" if row.kept else "")
                    + (f" ({row.note})" if row.note else "")
                ),
                style=style,
            )
        parts.append(table)
        parts += [
            Text(f"  {row.name}  {difference.key}: {difference.found}", style="red")
            for row in verdict.tables
            for difference in row.examples
        ]
    parts += [
        Text(f"  {row.name}  what to do: {row.remedy}")
        for row in verdict.tables
        if row.differences and row.remedy
    ]
    parts.append(Text(headline, style=f"bold {colour}"))
    if verdict.position:
        parts.append(Text(f"at {verdict.position}", style="dim"))
    if verdict.reason:
        parts.append(Text(verdict.reason))
    if verdict.outcome in _REMEDIES:
        parts.append(Text(f"what to do: {_REMEDIES[verdict.outcome]}"))
    return Group(*parts)
