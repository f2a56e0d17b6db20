"""`ingest status` for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ingest.cli import one_screen
from ingest.cli.notices import notices
from ingest.cli.one_screen import Line
from ingest.model.counted import counted
from ingest.model.manifest import Entry
from ingest.model.reasons import FITS
from ingest.observe import lanes
from ingest.observe.pipeline_status import ProgressReport, TableProgress

ONE_SCREEN = 40
"""Lines at most, where nobody asks for all."""
_FEWEST = 5
"""Rows of tables that are shown whatever else there is to say."""
_AROUND = 3
"""An empty line, the list's heading, and what is said below it of what is not shown."""


def status_table(report: ProgressReport, *, whole: bool = True) -> Group:
    """How the pipeline is; then what is to be said of single tables, what asks for a person first; then each table's progress. ``whole``: all
    of it, however much that is; else what fits on one screen.
    """
    head, foot = _pipeline(report), _newest(report.newest)
    found = notices(report)
    room = ONE_SCREEN - len(head) - len(foot) - _AROUND
    said = one_screen.each(found) if whole else one_screen.told(found, room - _FEWEST)
    most = len(report.tables) if whole else max(_FEWEST, min(one_screen.ROWS, room - len(said)))
    text = Text()
    for line, style in (*head, *said, *foot):
        text.append(f"{line}\n", style)
    rows, others = one_screen.rows(report.tables, most)
    if not others and said != one_screen.each(found):
        others = "--all names each table, and each cause"
    more = [Text(others, "dim")] if others else []
    return Group(text, _progress(rows, whole=whole), *more)


def _pipeline(report: ProgressReport) -> list[Line]:
    """Who works, and how far the lake is."""
    lines = [(f"pipeline {report.pipeline}", "bold")]
    good = report.connector.good
    lines.append((f"connector  {report.connector.sentence}", "" if good else "red"))
    if report.job is not None:
        lines.append((f"job        {report.job.sentence}", "" if report.runs else "red"))
    newest = report.newest
    if newest is None:
        lines.append(("lake       no batch yet; `ingest run` applies the first", ""))
    elif newest.source_time:
        at = f"source time {newest.source_time:%Y-%m-%d %H:%M:%S} UTC"
        so_far = f"batch {newest.batch_id}, {counted(report.total_changes, 'change')} so far"
        lines.append((f"lake       {so_far}, {at}", ""))
    else:
        lines.append((f"lake       batch {newest.batch_id}", ""))
    if report.missing is not None:
        missing = f"{counted(report.missing, 'transaction')} not in Kafka yet"
        lines.append(
            (f"lag        {missing}, {counted(report.pending, 'record')} not applied yet", "")
        )
    return lines


def _newest(newest: Entry | None) -> list[Line]:
    """How the newest batch was made, and what is kept for the next; nothing of what is not so."""
    lines = list[str]()
    if newest and newest.stages:
        took = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in newest.stages.items())
        lines.append(f"stages     {took} of {newest.seconds:.1f} s")
    if newest and newest.lanes:
        lines.append(f"read       {lanes.in_words(newest.lanes)}")
    if many := sum(1 for one in newest.tables.values() if one.log) if newest else 0:
        lines.append(f"logs       each change of {counted(many, 'table')} is in its change log")
    if newest and newest.state_rows:
        size = f"{newest.state_bytes / 1e6:.1f} MB of state"
        lines.append(f"dedup      {counted(newest.state_rows, 'change')} remembered, {size}")
    return [(line, "dim") for line in lines]


def _progress(rows: Sequence[TableProgress], *, whole: bool) -> Table:
    """A row for each table; in one line, however long what its engine says, unless ``whole``."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("table")
    shown.add_column("version", justify="right")
    shown.add_column("not applied", justify="right")
    shown.add_column("  merged by")
    for row in rows:
        version = str(row.version) if row.version >= 0 else "–"
        engine = Text(f"  {_engine(row.engine)}", no_wrap=not whole, overflow="ellipsis")
        shown.add_row(Text(row.name), version, f"{row.pending:,}", engine)
    return shown


def _engine(choice: str) -> str:
    """Which engine; why only where it is not the usual one; and why Spark read the changes, where it did."""
    return choice.replace(f": {FITS.of()}", "") or "–"
