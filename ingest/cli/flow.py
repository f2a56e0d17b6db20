"""`ingest flow`: streaming queries of one's own over change logs, topics and files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.cli import local
from ingest.cli.arguments import Json, PipelineFile
from ingest.cli.screen import command, out, print_json, say
from ingest.model.counted import counted
from ingest.model.errors import Exit

if TYPE_CHECKING:
    from ingest.config.pipeline_file import Pipeline

app = typer.Typer(
    help="Flows: streaming queries of your own over change logs, topics and files.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="As below `flows` in the file.")]
Limit = Annotated[int, typer.Option(min=0, help="So many rows at most.")]


def _log(pipeline: Pipeline, home: Path | None) -> Path:
    return (local.home_folder(home) / "logs" / f"flow-{pipeline.name}.log").absolute()


@app.command()
@command
def run(
    file: PipelineFile,
    name: Name,
    once: Annotated[
        bool, typer.Option("--once", help="Take in what its inputs hold now, then stop.")
    ] = False,
    home: local.Home = None,
) -> None:
    """Run one flow in a process of its own. `ingest run` runs all of them beside the mirrors, but those that run elsewhere."""
    from ingest.cli.loading import load
    from ingest.job import flow_job

    pipeline = load(file)
    status = flow_job.run(pipeline, name, _log(pipeline, home), say, once=once)
    say(
        f"done: {counted(status.rows, 'row')}, up to batch {status.batch}; {status.late:,} came late"
    )
    if status.late:
        say(f"next: ingest flow late {file} {name}")
    if status.refused:
        say(f"{status.refused:,} rows were refused; next: ingest flow refused {file} {name}")


@app.command("list")
@command
def list_flows(file: PipelineFile, as_json: Json = False) -> None:
    """All flows of the file: what each reads and writes, and how far it is. Needs no server and no Spark."""
    from ingest.cli.flow_tables import flow_table
    from ingest.cli.loading import load
    from ingest.flows.flow_now import FlowLooks

    pipeline = load(file)
    known = FlowLooks.first(pipeline).status()
    status = {name: known.get(name) for name in pipeline.flows}
    if as_json:
        print_json({name: one.as_json() if one else None for name, one in status.items()})
    elif pipeline.flows:
        out.print(flow_table(pipeline.flows, status))
    else:
        out.print("the file has no `flows`")


@app.command()
@command
def late(
    file: PipelineFile,
    name: Name,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Compute the windows anew that it belongs to, and merge them into the flow's tables; the flow must not run meanwhile.",
        ),
    ] = False,
    limit: Limit = 20,
    as_json: Json = False,
    home: local.Home = None,
) -> None:
    """What came behind the watermark, which Spark has dropped: the newest of it, and how much there is."""
    from ingest.cli.flow_tables import late_table
    from ingest.cli.loading import load
    from ingest.flows import late_applied
    from ingest.flows.flow_folder import FlowFolder
    from ingest.job import flow_job

    pipeline = load(file)
    flow = flow_job.flow_of(pipeline, name)
    if apply:
        with flow_job.held(pipeline, name, _log(pipeline, home), say) as query:
            done = late_applied.apply(query)
        say(f"{counted(done.windows, 'window')} computed anew, {counted(done.rows, 'row')} merged")
        return
    with flow_job.session(pipeline, _log(pipeline, home)) as spark:
        rows = late_applied.late_rows(spark, FlowFolder(pipeline, name))
        if rows is None and as_json:
            print_json({"late": 0, "newest": []})
            return
        if rows is None:
            reason = " (`mode: complete` drops nothing)" if flow.mode == "complete" else ""
            out.print(f"nothing came late{reason}")
            return
        many = rows.count()
        newest = rows.orderBy("batch_id", "event_time", ascending=False).limit(limit).collect()
    if as_json:
        print_json({"late": many, "newest": [one.asDict(recursive=True) for one in newest]})
    else:
        out.print(late_table(newest, many))
        say(f"next: ingest flow late {file} {name} --apply counts them after all")


@app.command()
@command
def refused(
    file: PipelineFile,
    name: Name,
    limit: Limit = 20,
    as_json: Json = False,
    home: local.Home = None,
) -> None:
    """Rows that a server which it writes to has refused, each with the reason: the newest of them, and how many there are."""
    from ingest.cli.flow_tables import refused_table
    from ingest.cli.loading import load
    from ingest.flows.flow_folder import FlowFolder
    from ingest.job import flow_job
    from ingest.lake.delta.spark_table import SparkTable

    pipeline = load(file)
    flow_job.flow_of(pipeline, name)
    with flow_job.session(pipeline, _log(pipeline, home)) as spark:
        table = SparkTable(spark, FlowFolder(pipeline, name).refused)
        if not table.exists():
            if as_json:
                print_json({"refused": 0, "newest": []})
            else:
                out.print("no row was refused")
            return
        many = table.frame().count()
        newest = table.frame().orderBy("batch_id", "sink", ascending=False).limit(limit).collect()
    if as_json:
        print_json({"refused": many, "newest": [one.asDict() for one in newest]})
    else:
        out.print(refused_table(newest, many))
        say("next: mend the table, and write these rows to it by hand; they do not come again")


@app.command()
@command
def audit(
    file: PipelineFile,
    name: Name,
    limit: Limit = 20,
    as_json: Json = False,
    home: local.Home = None,
) -> None:
    """Compare the table of a flow with `totals` with Spark's own GROUP BY over the copies of its tables, as its newest batch has them."""
    from ingest.cli.loading import load
    from ingest.job import flow_job

    pipeline = load(file)
    with flow_job.held(pipeline, name, _log(pipeline, home), say) as query:
        cut, many, some = query.audit(limit)
    if as_json:
        print_json({"batch": cut.batch, "differences": many, "some": some})
    else:
        for row in some:
            out.print(row)
        verdict = "EQUAL" if not many else "DIFFERENT"
        out.print(
            f"[bold]{verdict}[/] {name}, as of batch {cut.batch} of the pipeline: {many:,} differences"
        )
    if many:
        raise typer.Exit(Exit.DIFFERENT)


@app.command()
@command
def state(
    file: PipelineFile,
    name: Name,
    limit: Limit = 5,
    as_json: Json = False,
    home: local.Home = None,
) -> None:
    """What its state holds, operator by operator, by Spark's own reader of it."""
    from ingest.cli.flow_tables import state_table
    from ingest.cli.loading import load
    from ingest.flows import flow_state
    from ingest.flows.flow_folder import FlowFolder
    from ingest.job import flow_job

    pipeline = load(file)
    flow_job.flow_of(pipeline, name)
    with flow_job.session(pipeline, _log(pipeline, home)) as spark:
        found = flow_state.held(spark, FlowFolder(pipeline, name), limit)
    if as_json:
        print_json([one.as_json() for one in found])
    else:
        out.print(state_table(found) if found else "it keeps no state")
