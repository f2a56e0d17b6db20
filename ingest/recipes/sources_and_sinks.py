"""Spark's small sources and sinks, as they are used in tests: `rate`, files and a socket; memory, the console and `foreach`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import Row

from ingest.recipes.stage import Stage, table


@contextmanager
def speaker(lines: list[str]) -> Iterator[int]:
    """A server that says these lines to whoever connects, and keeps none of them. Gives its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def speak() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connection.sendall("".join(f"{line}\n" for line in lines).encode())
            lines.clear()
            # It stays open, as a source that may say more.

    threading.Thread(target=speak, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()


def show(stage: Stage) -> dict[str, int]:
    """Returns by source and sink how many rows came through."""
    spark, found = stage.spark, dict[str, int]()
    stage.put("lines", [{"word": word} for word in ("cat", "dog", "owl")])
    files = spark.readStream.schema("word string").json(str(stage.folder / "lines"))
    query = files.writeStream.format("memory").queryName("words").start()
    query.processAllAvailable()
    found["files → memory"] = spark.table("words").count()
    query.stop()

    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    query = rate.writeStream.format("console").trigger(availableNow=True).start()
    query.awaitTermination()
    found["rate → console"] = sum(int(one["numInputRows"]) for one in query.recentProgress)

    heard = stage.folder / "heard"
    heard.mkdir(exist_ok=True)
    with speaker(["one", "two", "three", "four"]) as port:
        said = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port)
        query = said.load().writeStream.foreach(_noting(heard)).start()
        for _ in range(100):
            if len(list(heard.iterdir())) == 4:
                break
            threading.Event().wait(0.1)
        query.stop()
    found["socket → foreach"] = len(list(heard.iterdir()))
    shown = table("source → sink", "rows")
    for name, rows in found.items():
        shown.add_row(name, str(rows))
    stage.say(shown)
    return found


def _noting(folder: Path) -> Callable[[Row], None]:
    """For ``foreach``: called in Spark's tasks, row by row."""
    path = str(folder)

    def note(row: Row) -> None:
        (Path(path) / row.value).touch()

    return note
