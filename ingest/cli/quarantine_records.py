"""Records in quarantine, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ingest.lake.quarantine.waiting_list import Group, Record
from ingest.model.quarantine_drop import Drop

_MOST = 2_000
"""Characters of a key or a value on the screen; `--json` has all of them."""


def taken(found: Sequence[Record], which: Drop) -> list[Record]:
    """Those that a drop would take, or has."""
    return [
        one
        for one in found
        if which.takes(one.table, one.partition, one.offset, one.reason, one.batch_id)
    ]


def group_table(groups: Sequence[Group]) -> Table:
    """A line for each."""
    table = Table(box=None, pad_edge=False)
    for name in ("table", "partition", "changes", "offsets", "since batch", "reason"):
        right = name in ("partition", "changes", "since batch")
        table.add_column(name, justify="right" if right else "left")
    for one in groups:
        offsets = f"{one.first}-{one.last}" if one.last > one.first else f"{one.first}"
        row = (one.table, f"{one.partition}", f"{one.changes:,}", offsets, f"{one.since}")
        table.add_row(*map(Text, row), Text(one.reason))
    return table


def shown(one: Record) -> Text:
    """One record with its place, key and value."""
    when = f", {one.at:%Y-%m-%d %H:%M:%S} UTC" if one.at else ""
    place = (
        f"{one.topic}, partition {one.partition}, offset {one.offset}, batch {one.batch_id}{when}"
    )
    text = Text(f"{one.table}: {one.reason}\n", "red").append(f"  {place}\n", "dim")
    for name, held in (("key", one.key), ("value", one.value)):
        said = readable(held)
        more = f" … ({len(said):,} characters)" if len(said) > _MOST else ""
        text.append(f"  {name:<6} {said[:_MOST]}{more}\n", "")
    return text


def readable(held: bytes | None) -> str:
    """Bytes for a screen, whatever they are: what is no text, or would move the cursor, stands escaped."""
    if held is None:
        return "(none)"
    text = held.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def as_json(one: Record) -> dict[str, object]:
    """For ``--json``: keys and values as text, bytes that are none escaped."""
    return {
        **vars(one),
        **{
            name: None if held is None else held.decode("utf-8", "backslashreplace")
            for name, held in (("key", one.key), ("value", one.value))
        },
    }
