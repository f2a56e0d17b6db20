"""At most once, at least once, exactly once: the same input and the same kill, three ways to write a batch, three counts.

All three are `foreachBatch` of one query each. A process is killed in the middle of a batch, and another goes on from the same checkpoints. What
differs is when it is noted that the batch was written: before, never, or in the same commit.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ingest.job import spark_session
from ingest.recipes.killed_job import all_reached, run_until_killed
from ingest.recipes.stage import Stage, table

FILES, LINES, KILLED_IN = 6, 100, 3
"""So many files, each a batch of so many lines; the batch in the middle of which the kill comes, from 0."""

Write = Callable[[DataFrame, int, Path], None]


def at_most_once(rows: DataFrame, number: int, folder: Path) -> None:
    """Note it, then write it: what is killed in between is never written."""
    noted = folder / f"noted-{number}"
    if noted.exists():
        return
    noted.touch()
    _half_way(number, folder)
    rows.write.format("delta").mode("append").save(str(folder / "table"))


def at_least_once(rows: DataFrame, number: int, folder: Path) -> None:
    """Write it, and note nothing: what is killed before Spark has noted the batch is written twice."""
    rows.write.format("delta").mode("append").save(str(folder / "table"))
    _half_way(number, folder)


def exactly_once(rows: DataFrame, number: int, folder: Path) -> None:
    """Write it and note it in one commit, as a flow does: what comes again is known."""
    identity = {"txnAppId": "recipe", "txnVersion": str(number)}
    rows.write.format("delta").mode("append").options(**identity).save(str(folder / "table"))
    _half_way(number, folder)


WAYS: Mapping[str, Write] = {
    "at most once": at_most_once,
    "at least once": at_least_once,
    "exactly once": exactly_once,
}

_reached = threading.Semaphore(0)


def _half_way(number: int, folder: Path) -> None:
    """Where the first process stands still until it is killed."""
    if number == KILLED_IN and not (folder.parent / "killed").exists():
        _reached.release()
        threading.Event().wait()


def job(folder: Path, session: SparkSession, *, kill: bool) -> None:
    """All three queries, up to the end of the input; or to the middle of the batch that is killed."""
    queries = []
    for name, write in WAYS.items():
        place = folder / name.replace(" ", "-")
        place.mkdir(exist_ok=True)
        lines = session.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "lines"))

        def batch(rows: DataFrame, number: int, write: Write = write, place: Path = place) -> None:
            write(rows, number, place)

        writer = lines.writeStream.foreachBatch(batch).trigger(availableNow=True)
        queries.append(writer.option("checkpointLocation", str(place / "checkpoint")).start())
    if kill:
        all_reached(_reached, queries)
        (folder / "killed").touch()
        signal.raise_signal(signal.SIGKILL)
    for query in queries:
        query.awaitTermination()


def show(stage: Stage) -> dict[str, int]:
    """Returns by way how many lines there are in the end."""
    source = stage.folder / "lines"
    source.mkdir(exist_ok=True)
    for file in range(FILES):
        text = "\n".join(f"line {file * LINES + n}" for n in range(LINES))
        (source / f"{file:03}.txt").write_text(text, encoding="utf-8")
    stage.say(f"{FILES * LINES} lines in {FILES} files; killed in the middle of batch {KILLED_IN}")
    run_until_killed(stage, "ingest.recipes.guarantees")
    stage.say("killed by SIGKILL; another process goes on from the same checkpoints")
    job(stage.folder, stage.spark, kill=False)
    shown, found = table("way", "lines", "so"), dict[str, int]()
    for name in WAYS:
        path = stage.folder / name.replace(" ", "-") / "table"
        found[name] = stage.spark.read.format("delta").load(str(path)).count()
        missing = FILES * LINES - found[name]
        so = f"{missing} lost" if missing > 0 else f"{-missing} twice" if missing else "each once"
        shown.add_row(name, str(found[name]), so)
    stage.say(shown)
    return found


def _main() -> None:
    folder = Path(sys.argv[1])
    log = folder / "job.log"
    session = spark_session.create(
        "guarantees", master="local[2]", driver_memory="1g", conf={}, log=log
    )
    job(folder, session, kill=True)


if __name__ == "__main__":
    _main()
