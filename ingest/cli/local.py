"""`ingest local`: starts and stops a MySQL, a Kafka and a Connect of this project's own on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ingest.cli.screen import command, out, print_json, say
from ingest.local.stack import Stack, default_home
from ingest.model.errors import Exit, IngestError

app = typer.Typer(
    help="The embedded stack: real MySQL, Kafka and Connect on loopback, in one folder.",
    no_args_is_help=True,
)

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of the stack.", show_default="$INGEST_HOME or .ingest"),
]


def home_folder(chosen: Path | None) -> Path:
    """The folder that was asked for, absolute."""
    return chosen.resolve() if chosen else default_home()


def spark_log(chosen: Path | None, of: str, pipeline: str) -> Path:
    """Where Spark's own log of a command goes, below that folder."""
    return (home_folder(chosen) / "logs" / f"{of}-{pipeline}.log").absolute()


def _port(help_: str) -> Any:
    """An option that takes a port."""
    return typer.Option(help=help_, min=1, max=65535)


@app.command()
@command
def up(
    home: Home = None,
    mysql_port: Annotated[int | None, _port("Port for MySQL.")] = None,
    kafka_port: Annotated[int | None, _port("Port for Kafka.")] = None,
    kafka_controller_port: Annotated[int | None, _port("Its controller's.")] = None,
    connect_port: Annotated[int | None, _port("Port for Connect.")] = None,
    mysqld: Annotated[
        Path | None,
        typer.Option("--mysql", help="A `mysqld` to run, of MySQL 8.0 to 9; kept for this folder."),
    ] = None,
) -> None:
    """Start what does not run yet; wait until all of it answers."""
    chosen = {
        "mysql": mysql_port,
        "kafka": kafka_port,
        "kafka-controller": kafka_controller_port,
        "connect": connect_port,
    }
    stack = Stack.at(home_folder(home))
    stack.up({name: port for name, port in chosen.items() if port is not None}, say, mysqld)
    mysql = stack.mysql()
    say(f"the stack is up in {stack.home}; next, with a database of yours in it:")
    say(
        f"  ingest init --mysql mysql://ingest@127.0.0.1:{mysql.port} "
        f"--password-file {mysql.secret('ingest')} --tables 'DATABASE.*' -o pipeline.yaml"
    )


@app.command()
@command
def status(
    home: Home = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say how each part is. Exit code 4 when one of them has died or does not answer."""
    stack = Stack.at(home_folder(home))
    parts = stack.status()
    if as_json:
        facts = stack.facts() if stack.ports else {}
        print_json({**facts, "parts": {p.part: _part(p) for p in parts}, "home": str(stack.home)})
    else:
        table = Table("part", "state", "address", "pid", "", box=None, pad_edge=False)
        for part in parts:
            port = stack.ports.get(part.part)
            colour = {"running": "green", "stopped": "dim"}.get(part.state, "red")
            table.add_row(
                part.part,
                f"[{colour}]{part.state}[/]",
                f"127.0.0.1:{port}" if port else "",
                str(part.pid or ""),
                part.detail,
            )
        out.print(table)
    if not all(part.good for part in parts):
        raise typer.Exit(int(Exit.FAILED))


def _part(health: object) -> dict[str, object]:
    from ingest.local.stack import Health

    assert isinstance(health, Health)
    return {
        "state": health.state,
        "healthy": health.good,
        "pid": health.pid,
        "detail": health.detail,
    }


@app.command()
@command
def logs(
    part: Annotated[str, typer.Argument(help="mysql, kafka or connect.")],
    home: Home = None,
    lines: Annotated[int, typer.Option("-n", help="How many lines.", min=0)] = 40,
) -> None:
    """Print the end of a part's log."""
    path = home_folder(home) / "logs" / f"{part}.log"
    if not path.exists():
        raise IngestError(
            "E-LOCAL-LOG",
            f"There is no log {path}.",
            remedy="name one of mysql, kafka and connect; `ingest local up` starts them.",
        )
    every = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in every[max(0, len(every) - lines) :]:
        out.print(line, markup=False)


@app.command()
@command
def down(home: Home = None) -> None:
    """Stop every part; data stays. Nothing of the stack survives this."""
    stack = Stack.at(home_folder(home))
    stack.down(say)
    if stack.exists:
        say("the stack is down; its data stays (`ingest local reset` deletes it)")
    else:
        say(f"there is no stack in {stack.home}")


@app.command()
@command
def reset(home: Home = None) -> None:
    """Stop every part and delete their data. The artefact cache stays."""
    stack = Stack.at(home_folder(home))
    if stack.reset(say):
        say(f"the stack in {stack.home} is gone")
    else:
        say(f"there is no stack in {stack.home}; nothing was deleted")
