"""Lines and tables about batches: what `run` and `status` print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ingest.batch.batch_report import BatchReport
from ingest.cli.screen import err, say
from ingest.flows.flow_record import FlowStatus
from ingest.lake.quarantine.waiting_list import Waiting
from ingest.model.manifest import Entry
from ingest.model.reasons import FITS, LEFT_BY_CONNECTOR, SET_ASIDE
from ingest.observe import lanes
from ingest.observe.only_in_lake import OnlyInLake
from ingest.observe.pipeline_status import ProgressReport, TableProgress


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
            f"batch {entry.batch_id:>5}  {entry.changes:>9,} changes  "
            f"{touched:>4} tables  {entry.seconds:>6.1f} s"
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
        say(f"done: {self._changes:,} changes in {self._batches} batches")
        if self._rejects:
            say(
                f"{self._rejects} changes went to quarantine, each with its reason; later changes of "
                f"their keys wait behind them: ingest status {file}"
            )
        if once:
            say(f"next: ingest audit {file}")


def waiting_lines(waiting: Sequence[Waiting]) -> Text:
    """What waits in quarantine, a line per table and reason, and what to do."""
    if not waiting:
        return Text("quarantine  nothing waits\n")
    text = Text()
    for one in waiting:
        text.append(f"quarantine  {one.table}: {one.changes:,} changes: {one.reason}\n", "red")
    return text.append(
        "            mend the cause and `ingest replay` (or restart the job), or `ingest resync` the table; "
        "`ingest quarantine` lists, shows and drops them\n"
    )


def _read_and_logged(newest: Entry | None) -> Text:
    """Where changes were read, and how many tables have a change log; nothing of what is not so."""
    text = Text(style="dim")
    if newest and newest.lanes:
        text.append(f"read       {lanes.in_words(newest.lanes)}\n")
    many = sum(1 for one in newest.tables.values() if one.log) if newest else 0
    those = "1 table" if many == 1 else f"{many} tables"
    return text.append(f"logs       each change of {those} is in its change log\n" if many else "")


ONE_SCREEN = 20
"""Rows of tables at most, where nobody asks for all of them."""


def on_one_screen(tables: Sequence[TableProgress]) -> tuple[list[TableProgress], str]:
    """Those to be shown, and what is to be said of the others. Of many, those that are behind, the furthest first, and then the first by name."""
    if len(tables) <= ONE_SCREEN:
        return [*tables], ""
    order = sorted(tables, key=lambda one: (not _is_behind(one), -one.pending))
    left = order[ONE_SCREEN:]
    waiting = sum(map(_is_behind, left))
    those = f"{waiting:,} of them are behind" if waiting else "nothing of which waits"
    return order[:ONE_SCREEN], f"and {len(left):,} tables more, {those}; --all lists them"


def _is_behind(table: TableProgress) -> bool:
    return table.pending > 0 or table.version < 0


def status_table(report: ProgressReport, *, whole: bool = True) -> Group:
    """`ingest status` for people. ``whole``: with each table, however many there are."""
    newest = report.newest
    head = Text()
    head.append(f"pipeline {report.pipeline}\n", style="bold")
    head.append(f"connector  {report.connector.sentence}\n", "" if report.connector.good else "red")
    if report.job is not None:
        head.append(f"job        {report.job.sentence}\n", "" if report.runs else "red")
    if newest is None:
        head.append("lake       no batch yet; `ingest run` applies the first\n")
    else:
        head.append(
            f"lake       batch {newest.batch_id}, {report.total_changes:,} changes so far, "
            f"source time {newest.source_time:%Y-%m-%d %H:%M:%S} UTC\n"
            if newest.source_time
            else f"lake       batch {newest.batch_id}\n"
        )
    if report.missing is not None:
        head.append(f"lag        {report.missing:,} transactions not in Kafka yet, ")
        head.append(f"{report.pending:,} records not applied yet\n")
    if newest and newest.stages:
        took = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in newest.stages.items())
        head.append(f"stages     {took} of {newest.seconds:.1f} s\n", "dim")
    head.append_text(_read_and_logged(newest))
    for gap in newest.gaps if newest else ():
        state = "open until `ingest resync` of the table" if gap.by_hand else "not mended yet"
        state = state if report.is_open(gap) else "mended: the table was taken again"
        state = "the table is excluded by now" if gap.table in report.excluded else state
        head.append(
            f"gap        {gap.table}: {gap.reason}, offsets {gap.start} to {gap.end}, {state}\n",
            "red" if report.is_open(gap) else "dim",
        )
        aside = next((one for one in SET_ASIDE if one.is_in(gap.reason)), None)
        if aside and report.is_open(gap):
            head.append(f"           what to do: {aside.remedy}\n")
    for table_name, held in (newest.tables if newest else {}).items():
        if held.paused:
            head.append(
                f"paused     {table_name} before {held.paused_by[:80]!r}: its changes wait\n",
                "yellow",
            )
            head.append(f"           let it pass with `approved: {held.paused}` below `tables`\n")
        if held.stopped:
            head.append(f"stopped    {table_name}: {held.stopped}; its changes wait\n", "red")
            head.append("           mend that and run again: a start tries it again, in order\n")
        if held.hidden:
            head.append(
                f"hidden     {table_name} is being taken again: readers see it as of {held.position} until all its rows are there\n",
                "yellow",
            )
    for name in report.resyncing:
        waits = "; the stream waits while it is read" if name in report.blocking else ""
        head.append(f"resync     {name} is being taken again{waits}\n", "yellow")
    for name, why in report.left_out.items():
        head.append(f"left out   {name}: {LEFT_BY_CONNECTOR.of(words=why)}\n", "red")
        head.append(f"           what to do: {LEFT_BY_CONNECTOR.remedy}\n")
    for name in report.joining:
        head.append(
            f"joins      {name} is not in the lake; the next run takes it whole\n", "yellow"
        )
    if newest and newest.state_rows:
        head.append(f"dedup      {newest.state_rows:,} changes remembered, ")
        head.append(f"{newest.state_bytes / 1e6:.1f} MB of state\n")
    for name, flow in report.flows.items():
        head.append(_flow(name, flow))
    for one in report.only_in_lake:
        head.append(_left(one))
    if report.waiting:
        head.append(waiting_lines(report.waiting))
    return Group(head, *_of_tables(report.tables, whole=whole))


def _of_tables(tables: Sequence[TableProgress], *, whole: bool) -> list[Table | Text]:
    rows, others = (tables, "") if whole else on_one_screen(tables)
    shown = Table(box=None, pad_edge=False)
    shown.add_column("table")
    shown.add_column("version", justify="right")
    shown.add_column("not applied", justify="right")
    shown.add_column("  merged by")
    for row in rows:
        version = str(row.version) if row.version >= 0 else "–"
        engine = Text(f"  {_engine(row.engine)}")
        shown.add_row(Text(row.name), version, f"{row.pending:,}", engine)
    return [shown, *([Text(others, "dim")] if others else [])]


def _flow(name: str, one: FlowStatus) -> Text:
    """How far a flow is."""
    late = f", {one.late:,} came late" if one.late else ""
    refused = f", {one.refused:,} were refused" if one.refused else ""
    said = f"flow       {name} {one.state}: batch {one.batch}, {one.rows:,} rows{late}{refused}\n"
    text = Text(said, "red" if one.state in ("failed", "died", "silent") else "")
    return text.append(f"           {one.error}\n", "red") if one.error else text


def _left(one: OnlyInLake) -> Text:
    """A table that only the lake has, and what to do about it."""
    said = f"left       {one.name}: {one.rows:,} rows that only the lake has: {one.reason}\n"
    if one.keeps:
        return Text(said, "dim")
    return Text(said, "yellow").append(f"           what to do: {one.remedy}\n")


def _engine(choice: str) -> str:
    """Which engine; why only where it is not the usual one; and why Spark read the changes, where it did."""
    return choice.replace(f": {FITS.of()}", "") or "–"
