"""`ingest quarantine`: what waits there, record by record, and giving some of it up."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from ingest.cli import local
from ingest.cli.arguments import Json, PipelineFile
from ingest.cli.screen import command, out, print_json, say
from ingest.model.counted import counted
from ingest.model.errors import Exit, IngestError
from ingest.model.quarantine_drop import Drop
from ingest.model.topics import table_or_topic

app = typer.Typer(
    help="Changes that could not be applied: list them, show them, give some of them up.",
    no_args_is_help=True,
)

Reason = Annotated[str, typer.Option(help="Only those whose reason begins so.")]
Partition = Annotated[int | None, typer.Option(help="Only those of this partition of the topic.")]
Offsets = Annotated[
    str, typer.Option(metavar="FIRST[-LAST]", help="Only those at these offsets, both included.")
]
Dropped = Annotated[
    bool, typer.Option("--dropped", help="What was given up, not what waits; it stays for good.")
]
Named = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="As `list` names it: `database.table`, or a topic."),
]


@app.command("list")
@command
def list_waiting(file: PipelineFile, as_json: Json = False, dropped: Dropped = False) -> None:
    """How many changes wait: by table, partition and reason, with their offsets and since which batch."""
    from ingest.cli.loading import load
    from ingest.cli.quarantine_records import group_table
    from ingest.lake.quarantine.waiting_list import grouped, records

    groups = grouped(records(load(file).lake.path, dropped=dropped))
    if as_json:
        print_json([one.as_json() for one in groups])
    elif groups:
        out.print(group_table(groups))
    else:
        out.print("nothing was dropped" if dropped else "nothing waits")


@app.command()
@command
def show(
    file: PipelineFile,
    table: Named,
    reason: Reason = "",
    partition: Partition = None,
    offsets: Offsets = "",
    limit: Annotated[int, typer.Option(min=1, help="So many records at most.")] = 20,
    dropped: Dropped = False,
    as_json: Json = False,
) -> None:
    """The records of one table, with their keys and values as Kafka brought them."""
    from ingest.cli.loading import load
    from ingest.cli.quarantine_records import as_json as in_json
    from ingest.cli.quarantine_records import shown, taken
    from ingest.lake.quarantine.waiting_list import records, with_bytes

    lake = load(file).lake.path
    found = taken(records(lake, dropped=dropped), _drop(table, reason, partition, offsets))
    listed = with_bytes(lake, found[:limit])
    if as_json:
        print_json([in_json(one) for one in listed])
        return
    for one in listed:
        out.print(shown(one))
    if len(found) > limit:
        say(f"and {len(found) - limit:,} more; `--limit` shows them")
    if not found:
        say("no such change is there")


@app.command()
@command
def drop(
    file: PipelineFile,
    table: Named,
    reason: Reason = "",
    partition: Partition = None,
    offsets: Offsets = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    log: Annotated[Path | None, typer.Option(help="Where Spark's own log goes.")] = None,
    home: local.Home = None,
) -> None:
    """Give changes of one table up; the job has to stand still.

    They are not applied any more, and nothing waits behind them. The records stay in the quarantine, and a gap in the
    manifest says what was given up, to `ingest status` and to the audit, until the table was taken again.
    """
    from ingest.cli.batches import BatchLines, waiting_lines
    from ingest.cli.loading import load
    from ingest.cli.quarantine_records import group_table, taken
    from ingest.job.run import Run
    from ingest.lake.quarantine.waiting_list import grouped, records, waiting_list

    pipeline = load(file)
    which = _drop(table, reason, partition, offsets)
    found = taken(records(pipeline.lake.path), which)
    if not found:
        raise IngestError(
            "E-QUARANTINE-NONE",
            f"No change of {table!r} that waits is named by that.",
            means="Nothing was dropped.",
            remedy="`ingest quarantine list FILE` says what waits, each by the name that is wanted here.",
        )
    out.print(group_table(grouped(found)))
    _confirm(len(found), table, yes=yes)
    path = log or local.home_folder(home) / "logs" / f"spark-{pipeline.name}.log"
    upto = max(one.batch_id for one in found)
    chosen = _drop(table, reason, partition, offsets, upto)
    report = BatchLines().report
    Run(pipeline, path.absolute(), say, report, only_replay=True, drop=chosen).execute()
    out.print(waiting_lines(waiting_list(pipeline.lake.path)))
    say(f"{table} may differ from its source now; `ingest resync` of the table mends it")


def _drop(table: str, reason: str, partition: int | None, offsets: str, upto: int = 2**62) -> Drop:
    """Raises :class:`IngestError` for what are no offsets."""
    first, dash, last = offsets.partition("-")
    try:
        low = int(first) if first else 0
        high = int(last) if last else (None if dash or not first else low)
    except ValueError:
        raise IngestError(
            "E-QUARANTINE-OFFSETS",
            f"{offsets!r} names no offsets.",
            remedy="write `--offsets 17`, `--offsets 17-20` or `--offsets 17-`.",
        ) from None
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    return Drop(_name(table), upto, today, reason, partition, low, high)


def _confirm(changes: int, table: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise IngestError(
            "E-QUARANTINE-CONFIRM",
            f"{counted(changes, 'change')} of {table} would be given up, and there is nobody to ask.",
            means="Nothing was dropped.",
            remedy="say `--yes`.",
        )
    if not typer.confirm(f"Give {counted(changes, 'change')} of {table} up?"):
        say("nothing was dropped")
        raise typer.Exit(int(Exit.REFUSED))


def _name(table: str) -> str:
    """A table's name as it is listed, however it is quoted; a topic's stays as it is."""
    return str(table_or_topic(table) or table)
