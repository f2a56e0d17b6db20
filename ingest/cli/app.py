"""`ingest`: the top-level commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ingest import __version__
from ingest.cli import connector, flow, local, quarantine, recipe
from ingest.cli.arguments import Json, PipelineFile
from ingest.cli.screen import command, err, out, print_json, quiet_libraries, say
from ingest.model.counted import counted
from ingest.model.errors import Exit

app = typer.Typer(
    name="ingest",
    help="Keep Delta tables equal to a live MySQL, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(local.app, name="local")
app.add_typer(connector.app, name="connector")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(flow.app, name="flow")
app.command()(recipe.recipe)


@app.command()
@command
def init(
    mysql: Annotated[str, typer.Option(help="mysql://user@host:port of the source.")],
    password_file: Annotated[Path, typer.Option(help="File that holds its password.")],
    tables: Annotated[
        list[str],
        typer.Option(
            help="What to take: `database.table` with * and ?; ! in front excludes. "
            "May be given several times, or followed by further patterns."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="[PATTERN]…", help="More.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the pipeline.")] = None,
    kafka: Annotated[str | None, typer.Option(help="Bootstrap servers of your own Kafka.")] = None,
    connect: Annotated[str | None, typer.Option(help="URL of your own Kafka Connect.")] = None,
    lake: Annotated[str | None, typer.Option(help="Where the Delta tables go.")] = None,
    home: local.Home = None,
    force: Annotated[bool, typer.Option(help="Overwrite the output file.")] = False,
) -> None:
    """Write a first pipeline file, commented, after a look at the source."""
    from ingest.job.first_pipeline_file import First, write

    first = First(mysql, password_file, (*tables, *(more or ())), name, kafka, connect, lake)
    found = write(first, output, local.home_folder(home), force=force)
    say(
        f"{output}: {counted(len(found), 'table')} of {mysql} {'is' if len(found) == 1 else 'are'} taken"
    )
    for table in found[:12]:
        say(f"  {table}")
    if len(found) > 12:
        say(f"  … and {len(found) - 12} more")
    say(f"next: ingest run {output} --once")


@app.command()
@command
def schema() -> None:
    """Print the JSON Schema of the pipeline file, for editors."""
    from ingest.config.pipeline_file import Pipeline

    sys.stdout.write(json.dumps(Pipeline.model_json_schema(), indent=2) + "\n")


@app.command()
@command
def run(
    file: PipelineFile,
    once: Annotated[
        bool, typer.Option("--once", help="Apply what MySQL has committed by now, then stop.")
    ] = False,
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Wait behind the job that runs, take over when it is gone."),
    ] = False,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning",
            help="Read every topic again from its beginning, under a new checkpoint; what is "
            "applied already is recognised.",
        ),
    ] = False,
    log: Annotated[Path | None, typer.Option(help="Where Spark's own log goes.")] = None,
    home: local.Home = None,
) -> None:
    """Run the pipeline: apply the connector, then keep the lake equal to MySQL."""
    from ingest.arrow import allocators
    from ingest.cli.loading import load

    pipeline = load(file)
    allocators.as_soon_as_freed()  # before anything imports delta-rs
    if pipeline.spark.lane == "spark":
        allocators.one_arena()  # before Arrow has threads

    from ingest.cli.batches import BatchLines
    from ingest.job.run import Run

    path = log or local.home_folder(home) / "logs" / f"spark-{pipeline.name}.log"
    lines = BatchLines()
    Run(pipeline, path.absolute(), say, lines.report).execute(
        once=once, standby=standby, from_beginning=from_beginning
    )
    lines.total(once=once, file=file)


@app.command()
@command
def plan(file: PipelineFile, as_json: Json = False, home: local.Home = None) -> None:
    """Show what pending DDL or a changed pipeline file will do, and what it costs; changes nothing."""
    from ingest.cli.loading import load
    from ingest.cli.plans import plan_table
    from ingest.job import lake_reach
    from ingest.observe.pipeline_plan import gather
    from ingest.start.lake_format import refuse_other

    pipeline = load(file)
    with lake_reach.reached(pipeline, local.spark_log(home, "plan", pipeline.name)):
        refuse_other(pipeline.lake.path)
        found = gather(pipeline)
    if as_json:
        print_json(found.as_json())
    else:
        out.print(plan_table(found))


@app.command()
@command
def status(
    file: PipelineFile,
    as_json: Json = False,
    fail_on_gap: Annotated[
        bool, typer.Option("--fail-on-gap", help="Exit code 4 while a gap in Kafka is not mended.")
    ] = False,
    fail_without_job: Annotated[
        bool, typer.Option("--fail-without-job", help="Exit code 4 while no job keeps the lake.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--all", help="Each table and each cause, however many there are.")
    ] = False,
) -> None:
    """Show how far the lake is: whether a job runs, newest batch, lag per table, gaps, the connector's health."""
    from ingest.cli.loading import load
    from ingest.cli.status_table import status_table
    from ingest.observe.pipeline_status import gather
    from ingest.start.lake_format import refuse_other

    pipeline = load(file)
    refuse_other(pipeline.lake.path)
    report = gather(pipeline)
    if as_json:
        print_json(report.as_json())
    else:
        out.print(status_table(report, whole=whole))
    missing = fail_on_gap and bool(report.open_gaps or report.left_out)
    if missing or (fail_without_job and (report.job is None or not report.runs)):
        raise typer.Exit(int(Exit.FAILED))


@app.command()
@command
def audit(
    file: PipelineFile,
    as_json: Json = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for the lake to reach MySQL's position.")
    ] = 30.0,
    change_logs: Annotated[
        bool,
        typer.Option(
            "--change-logs", help="Also fold each change log, and compare it with its table."
        ),
    ] = False,
    home: local.Home = None,
) -> None:
    """Compare every captured table in MySQL and in the lake, row by row, at one position.

    Exit code 0 only when equal; 1 when something differs; 3 when no common position was had.
    """
    from ingest.cli.loading import load
    from ingest.job import run_end, spark_session
    from ingest.observe.audit import Audit
    from ingest.observe.log_audit import LogAudit
    from ingest.observe.log_verdict import differ, is_idle, log_verdict_table
    from ingest.observe.verdict_table import verdict_table
    from ingest.start.preflight import refuse_away_lake

    pipeline = load(file)
    refuse_away_lake(pipeline)
    log = local.spark_log(home, "audit", pipeline.name)
    spark = spark_session.for_pipeline(pipeline, log)
    try:
        with run_end.told(log, pipeline.lake.path, run_end.OF_AN_AUDIT):
            verdict = Audit(pipeline, spark, say, wait).execute()
            logs = LogAudit(pipeline, spark).execute() if change_logs else []
    finally:
        spark_session.end(spark)
    if as_json:
        of_logs = {"change_logs": [one.as_json() for one in logs]} if change_logs else {}
        print_json(verdict.as_json() | of_logs)
    else:
        out.print(verdict_table(verdict))
        if change_logs:
            out.print(log_verdict_table(logs))
    code = {"equal": Exit.OK, "different": Exit.DIFFERENT}.get(verdict.outcome, Exit.NOT_COMPARABLE)
    if differ(logs):
        code = Exit.DIFFERENT
    elif is_idle(logs) and verdict.equal:
        code = Exit.NOT_COMPARABLE
    raise typer.Exit(int(code))


@app.command()
@command
def resync(
    file: PipelineFile,
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]…", help="`database.table`, several.")
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="All tables, by a new snapshot under a new epoch; stop the job first."
        ),
    ] = False,
    home: local.Home = None,
) -> None:
    """Take tables again from MySQL; the others go on, old rows stay readable meanwhile.

    The pipeline's own grants are enough (SELECT on the table), and MySQL needs GTIDs. The running
    job, or the next one, brings it to its end; `ingest status` shows it until then.
    """
    from ingest.cli.loading import load
    from ingest.job import lake_reach
    from ingest.lake import ownership
    from ingest.model.errors import IngestError
    from ingest.source import resync as again
    from ingest.source.named_table import known_table
    from ingest.source.resync_all import resnapshot

    pipeline = load(file)
    if everything == bool(tables):
        raise IngestError(
            "E-RESYNC-TABLE",
            "Say which tables, or --all.",
            remedy="`ingest resync FILE shop.orders`, or `ingest resync FILE --all`.",
        )
    with lake_reach.reached(pipeline, local.spark_log(home, "resync", pipeline.name)):
        if everything:
            resnapshot(pipeline, say)
        else:
            ownership.refuse_other(pipeline)
            names = [str(known_table(pipeline, name)) for name in tables or ()]
            again.request(pipeline, names, say)
    say(f"next: ingest run {file} (a job that runs already brings it to its end by itself)")


@app.command()
@command
def replay(
    file: PipelineFile,
    as_json: Json = False,
    log: Annotated[Path | None, typer.Option(help="Where Spark's own log goes.")] = None,
    home: local.Home = None,
) -> None:
    """Take in what waits in quarantine, in order, once its cause is mended; then say what still waits.

    A run does the same when it starts, so for a job that runs already, restart it.
    """
    from ingest.cli.batches import BatchLines, waiting_lines
    from ingest.cli.loading import load
    from ingest.job.run import Run
    from ingest.lake.quarantine.waiting_list import waiting_list

    pipeline = load(file)
    path = log or local.home_folder(home) / "logs" / f"spark-{pipeline.name}.log"
    lines = BatchLines()
    if waiting_list(pipeline.lake.path):
        Run(pipeline, path.absolute(), say, lines.report, only_replay=True).execute()
    left = waiting_list(pipeline.lake.path)
    if as_json:
        print_json({"waiting": [one.as_json() for one in left]})
    else:
        out.print(waiting_lines(left))


@app.command()
@command
def demo(
    home: local.Home = None,
    seconds: Annotated[float, typer.Option(help="Seconds of live traffic.")] = 30.0,
    keep: Annotated[bool, typer.Option(help="Leave the stack running afterwards.")] = False,
) -> None:
    """Snapshot, live traffic, two kills on purpose, and the proof: lake = source."""
    from ingest.demo import Demo

    Demo(local.home_folder(home) / "demo", seconds=seconds, keep=keep).execute()


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"ingest {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """The console script."""
    quiet_libraries()
    try:
        app()
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(int(Exit.INTERRUPTED))
