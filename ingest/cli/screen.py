"""What the terminal gets: sentences on stderr, results on stdout, errors in one shape."""

from __future__ import annotations

import functools
import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console

from ingest.model.errors import Exit, IngestError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

Command = TypeVar("Command", bound=Callable[..., Any])


def say(sentence: str) -> None:
    """One line of progress."""
    err.print(sentence, markup=False)


def print_json(value: object) -> None:
    """A result for scripts."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def command(function: Command) -> Command:
    """Turn an :class:`IngestError` into its sentence and exit code; no stack trace, which goes to a file."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except IngestError as failure:
            show(failure)
            raise typer.Exit(int(failure.exit_code)) from None
        except (KeyboardInterrupt, typer.Abort):  # the second one at a question
            err.print("interrupted")
            raise typer.Exit(int(Exit.INTERRUPTED)) from None
        except (typer.Exit, typer.BadParameter):
            raise
        except Exception as failure:  # noqa: BLE001 (whatever it is, a person gets a sentence, and a file the rest)
            error = unexpected(failure, function.__name__, kwargs.get("home"))
            show(error)
            raise typer.Exit(int(error.exit_code)) from None

    return guarded  # type: ignore[return-value]


_LARGE = 1_000_000
"""Bytes of failures, from which on a new file is begun; the one before is kept."""


def unexpected(failure: Exception, name: str, home: Path | None = None) -> IngestError:
    """A failure that nobody expected in the command ``name``, as an error of ours; its traceback goes to a file.
    ``home``: the folder of the stack, where the command was given one.
    """
    from ingest.job.stream_failure import in_one_line, written
    from ingest.lake.files.disk_failure import of_disk
    from ingest.local.stack import default_home

    if disk := of_disk(failure):
        return disk
    log = (home.resolve() if home else default_home()) / "logs" / "failures.log"
    with suppress(OSError):
        if log.stat().st_size > _LARGE:
            log.replace(log.with_suffix(".log.1"))
    log = written(failure, log)
    return IngestError(
        "E-UNEXPECTED",
        f"`ingest {name}` ended by a failure that nobody expected: {in_one_line(failure)}",
        means="Whatever was published stays; a batch that was not is finished by the next run.",
        remedy=f"report it with the file {log}, where all of it stands.",
        exit_code=Exit.FAILED,
    )


def quiet_libraries() -> None:
    """Keep off the terminal what libraries log of failures that are told there in sentences: py4j writes a traceback by the
    root logger when Spark's process is gone.
    """
    logging.getLogger().addHandler(logging.NullHandler())


def show(failure: IngestError) -> None:
    """An error: code and what happened, a line for each complaint where there are several, what it means, what to do."""
    err.print(f"[bold red]error[/] [dim]{failure.code}[/]  ", end="")
    if failure.each:
        err.print(f"{failure.headline}:", markup=False)
        for complaint in failure.each:
            err.print(f"  - {complaint}", markup=False)
    else:
        err.print(failure.what, markup=False)
    if failure.means:
        err.print(f"  {failure.means}", markup=False, style="dim")
    err.print("  [bold]what to do:[/] ", end="")
    err.print(failure.remedy, markup=False)
