"""Flows for people: how far they are, what came late, what they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Row
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ingest.config.flow_settings import Flow
from ingest.flows.flow_record import FlowStatus
from ingest.flows.flow_state import OperatorState
from ingest.model.counted import counted

_STYLES = {"runs": "green", "failed": "red", "died": "red", "silent": "red", "waits": "yellow"}


def flow_table(flows: Mapping[str, Flow], status: Mapping[str, FlowStatus | None]) -> Group:
    """A line for each; the failure of one that failed below."""
    table = Table(box=None, pad_edge=False)
    for name in ("flow", "state"):
        table.add_column(name)
    for name in ("batch", "rows", "late", "refused", "in state"):
        table.add_column(name, justify="right")
    for name in ("watermark", "reads", "writes"):
        table.add_column(name)
    errors = []
    for name, flow in flows.items():
        one = status[name] or FlowStatus(state="not begun")
        table.add_row(
            name,
            Text(one.state, _STYLES.get(one.state, "dim")),
            f"{one.batch:,}" if one.batch >= 0 else "–",
            f"{one.rows:,}",
            f"{one.late:,}",
            f"{one.refused:,}",
            f"{one.state_rows:,}" if one.operators else "–",
            one.watermark[:19].replace("T", " ") or "–",
            Text(", ".join(given.place for given in flow.inputs.values())),
            Text(", ".join(sink.name for sink in flow.sinks)),
        )
        if one.error:
            errors.append(Text(f"{name}: {one.error}", "red"))
    return Group(table, *errors)


def late_table(rows: Sequence[Row], many: int) -> Group:
    """The newest of what came late."""
    table = Table(box=None, pad_edge=False)
    for name in ("batch", "event time", "window", "behind watermark", "event"):
        table.add_column(name)
    for row in rows:
        window = f"{row.window.start:%H:%M:%S} – {row.window.end:%H:%M:%S}" if row.window else "–"
        at = f"{row.event_time:%Y-%m-%d %H:%M:%S}" if row.event_time else "–"
        table.add_row(str(row.batch_id), at, window, f"{row.watermark:%H:%M:%S}", Text(row.event))
    more = f", of which {len(rows)} are shown" if many > len(rows) else ""
    return Group(Text(f"{many:,} came late{more}"), table)


def refused_table(rows: Sequence[Row], many: int) -> Group:
    """The newest of what servers have refused."""
    table = Table(box=None, pad_edge=False)
    for name in ("batch", "sink", "reason", "row"):
        table.add_column(name)
    for row in rows:
        table.add_row(str(row.batch_id), Text(row.sink), Text(row.reason), Text(row.row))
    more = f", of which {len(rows)} are shown" if many > len(rows) else ""
    return Group(Text(f"{many:,} rows were refused{more}"), table)


def state_table(found: Sequence[OperatorState]) -> Group:
    """Each operator, and a few of its rows."""
    parts = []
    for one in found:
        store = "" if one.store == "default" else f", store {one.store}"
        parts.append(
            Text(
                f"operator {one.operator} ({one.name}{store}): {counted(one.rows, 'row')} in "
                f"{counted(one.partitions, 'partition')}, as of batch {one.batch}"
            )
        )
        parts += [Text(f"  {row['row']}", "dim") for row in one.some]
    return Group(*parts)
