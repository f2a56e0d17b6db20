"""`ingest connector`: the Debezium connector as desired state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ingest.cli.arguments import PipelineFile
from ingest.cli.loading import load
from ingest.cli.screen import command, out, print_json, say
from ingest.model.errors import Exit
from ingest.source.connector import Connector, Plan
from ingest.source.worker_secrets import write_truststore

app = typer.Typer(
    help="The Debezium connector, generated from the pipeline file.", no_args_is_help=True
)


@app.command()
@command
def plan(file: PipelineFile) -> None:
    """Show what `apply` would change."""
    from ingest.source import first_rows

    pipeline = load(file)
    connector = Connector(pipeline)
    first_rows.foresee(pipeline, connector)
    _print_plan(connector.plan())


@app.command()
@command
def apply(file: PipelineFile) -> None:
    """Create the connector or bring it to what the pipeline file says."""
    from ingest.lake import ownership
    from ingest.source import first_rows
    from ingest.start.preflight import refuse_unfit

    pipeline = load(file)
    refuse_unfit(pipeline)
    ownership.refuse_other(pipeline)  # what is taken is noted there
    connector = Connector(pipeline)
    first_rows.begin(pipeline, connector)
    done = connector.apply(say)
    verb = {"create": "created", "change": "changed", "nothing": "already as desired"}
    say(f"connector {pipeline.name}: {verb[done.action]}")


@app.command()
@command
def status(
    file: PipelineFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say how the connector's *task* is. Exit code 4 unless it delivers."""
    from ingest.observe.pipeline_status import connector_health

    health = connector_health(load(file))
    if as_json:
        print_json(health.as_json())
    else:
        out.print(health.sentence, markup=False)
    if not health.good:
        raise typer.Exit(int(Exit.FAILED))


@app.command()
@command
def truststore(
    file: PipelineFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where it is written.")],
) -> None:
    """Make the truststore by which Debezium verifies who MySQL is, of the certificate that `source.tls.ca` names."""
    count = write_truststore(load(file), output)
    say(f"{output}: {count} certificate{'s' if count > 1 else ''}")
    say(
        "next: put it where the Connect worker can read it, and name it by `connect: {files: {mysql_truststore: PATH}}`"
    )


@app.command()
@command
def pause(file: PipelineFile) -> None:
    """Stop reading the binlog; the place is kept."""
    Connector(load(file)).pause()
    say("paused; `ingest connector resume` goes on from the same place")


@app.command()
@command
def resume(file: PipelineFile) -> None:
    """Go on after `pause`."""
    Connector(load(file)).resume()
    say("resumed")


@app.command()
@command
def restart(file: PipelineFile) -> None:
    """Restart the connector and its task."""
    Connector(load(file)).restart()
    say("restarted")


@app.command()
@command
def delete(file: PipelineFile) -> None:
    """Remove the connector. Topics and the lake stay."""
    Connector(load(file)).delete()
    say("deleted; topics and the lake stay")


def _print_plan(found: Plan) -> None:
    if found.action == "nothing":
        out.print("nothing to change")
        return
    out.print(f"{found.action}:")
    table = Table(box=None, pad_edge=False, show_header=found.action == "change")
    table.add_column("setting")
    table.add_column("now")
    table.add_column("desired")
    for key, now, wanted in found.changes:
        table.add_row(*map(Text, (key, now or "", "(removed)" if wanted is None else wanted)))
    out.print(table)
