"""`ingest recipe`: one thing that streaming does, shown on this machine."""

from __future__ import annotations

import importlib
import shutil
from typing import Annotated

import typer

from ingest.cli import local
from ingest.cli.screen import command, out, say
from ingest.model.errors import IngestError

RECIPES = {
    "word-count": "words in windows of ten minutes, late data, a watermark: the three output modes side by side",
    "guarantees": "at most once, at least once, exactly once: the same input, the same kill, three counts",
    "error-counts": "errors by the minute into MySQL, killed between its commit and Spark's: four ways to write, three different counts",
    "latest-in-redis": "the latest of each row in Redis, well under a second behind MySQL, and never back",
    "revenue": "revenue by region and minute, right under cancellations: totals of two tables that are joined",
    "unreliable": "a socket beside Kafka: the same words, and a query that fails with a batch in hand",
    "one-table": "from MySQL's binlog to a Delta table in twenty lines: the pipeline as a library",
    "scheduled": "a flow that cron runs: each run goes on where the last one ended",
    "silence": "an alert where somebody falls silent: state of one's own with a timer, by transformWithState",
    "sources-and-sinks": "Spark's small sources and sinks, as they are used in tests",
}
"""By name, what each shows. Its module is called the same, with `_`."""


@command
def recipe(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which; all are listed without one.")
    ] = None,
    home: local.Home = None,
) -> None:
    """Show one thing that streaming does, on this machine; without a name, list what there is."""
    if name is None:
        for one, what in RECIPES.items():
            out.print(f"[bold]{one:<20}[/] {what}")
        say("next: ingest recipe word-count")
        return
    if name not in RECIPES:
        raise IngestError(
            "E-RECIPE-NAME",
            f"There is no recipe {name!r}.",
            remedy=f"name one of {', '.join(RECIPES)}.",
        )
    from ingest.recipes.stage import stage

    module = importlib.import_module(f"ingest.recipes.{name.replace('-', '_')}")
    root = local.home_folder(home)
    folder = (root / "recipes" / name).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    with stage(folder, out, root) as made:
        module.show(made)
    say(f"what it has written is in {folder}; docs/recipes/{name}.md says what you have seen")
