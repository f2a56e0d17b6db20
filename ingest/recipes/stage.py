"""What a recipe has: a folder, Spark, a screen."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from rich.console import Console, RenderableType
from rich.table import Table
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_query import FlowQuery
from ingest.job import spark_session
from ingest.kafka.broker import Silent
from ingest.lake.delta.commit import Committer, sibling
from ingest.lake.delta.spark_table import SparkTable
from ingest.local import terminated
from ingest.local.stack import Stack
from ingest.testing.lake import pipeline_at

SETTINGS = {"spark.ui.showConsoleProgress": "false"}


@dataclass
class Stage:
    """Of one recipe. ``spark`` is started when it is first asked for, and ended with the stage where that was here."""

    folder: Path
    console: Console
    given: SparkSession | None = None
    home: Path | None = None
    """Where the embedded stack is, of a recipe that needs one; what of it does not run is started, and then ended with it."""
    _made: SparkSession | None = None
    _stack: Stack | None = None
    _started: tuple[str, ...] = ()
    """Parts of the stack that did not run before: its owner's go on."""
    _files: dict[Path, int] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        """Spark, on this machine."""
        if self.given is not None:
            return self.given
        if self._made is None:
            self.say("starting Spark …")
            log = self.folder / "spark.log"
            self._made = spark_session.create(
                "ingest-recipe", master="local[2]", driver_memory="1g", conf=SETTINGS, log=log
            )
        return self._made

    @property
    def stack(self) -> Stack:
        """A real MySQL, Kafka and Connect, which answer."""
        if self._stack is None:
            assert self.home is not None
            self._stack = Stack.at(self.home)
            self._started = tuple(
                one.part for one in self._stack.status() if one.state in ("died", "stopped")
            )
            self._stack.up({}, self.say)
        return self._stack

    @property
    def broker(self) -> str:
        """Of Kafka, its bootstrap servers."""
        return self.stack.kafka().bootstrap_servers

    def chain(self, tables: str) -> dict[str, Any]:
        """Sections of a pipeline file by which the stack's MySQL is followed. ``tables``: which of it."""
        mysql = self.stack.mysql()
        return {
            "source": {
                "mysql": f"mysql://ingest@127.0.0.1:{mysql.port}",
                "password": {"file": str(mysql.secret("ingest"))},
                "tables": [tables],
            },
            "kafka": {"bootstrap_servers": self.broker},
            "connect": {"url": self.stack.connect().url},
            "spark": {"master": "local[2]", "driver_memory": "1g"},
        }

    def say(self, text: RenderableType) -> None:
        """A line, or a table, on the screen."""
        self.console.print(text)

    def put(self, folder: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """A file of JSON more in a folder of the stage, behind those that are there: Spark goes by when files were changed."""
        into = self.folder / folder
        into.mkdir(parents=True, exist_ok=True)
        number = self._files[into] = self._files.get(into, len(list(into.iterdir()))) + 1
        part = into / f".{number}"
        part.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        os.utime(part, (1_700_000_000 + number, 1_700_000_000 + number))
        part.rename(into / f"{number:05}.json")

    def flows(self, **flows: Mapping[str, Any]) -> Pipeline:
        """A pipeline of these flows alone, with its lake here."""
        return pipeline_at(self.folder / "lake", "recipe", flows=flows)

    def query(self, pipeline: Pipeline, flow: str, term: int = 1) -> FlowQuery:
        """A flow in a session of its own, ready to start."""
        folder, settings = FlowFolder(pipeline, flow), pipeline.flows[flow]
        return FlowQuery(sibling(self.spark), folder, settings, Committer(term), self.say)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Of a Delta table below the lake; none where it is not there yet."""
        held = SparkTable(self.spark, str(self.folder / "lake" / name))
        return (
            [row.asDict(recursive=True) for row in held.frame().collect()] if held.exists() else []
        )

    def end_spark(self) -> None:
        """Before something else starts its own."""
        spark_session.end(self._made)
        self._made = None

    def end(self) -> None:
        """Stop what was started here."""
        try:
            spark_session.end(self._made)
        finally:
            if self._stack is not None and self._started:
                self._stack.stop(self._started, self.say)


def empty_topic(broker: str, name: str) -> None:
    """A topic of one partition, with nothing in it: what an earlier run has left goes."""
    settings: dict[str, Any] = {"bootstrap.servers": broker, "logger": Silent()}
    admin = AdminClient(settings)
    try:
        admin.delete_topics([name])[name].result(30)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
    # A broker may answer before the name is free.
    again = Retrying(
        retry=retry_if_exception(_is_taken),
        stop=stop_after_delay(30),
        wait=wait_fixed(0.2),
        reraise=True,
    )
    again(lambda: admin.create_topics([NewTopic(name, 1, 1)])[name].result(30))


def _is_taken(failure: BaseException) -> bool:
    taken = KafkaError.TOPIC_ALREADY_EXISTS
    return isinstance(failure, KafkaException) and failure.args[0].code() == taken


@contextmanager
def stage(folder: Path, console: Console, home: Path | None = None) -> Iterator[Stage]:
    """A stage in an empty folder. ``home``: of the embedded stack."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Stage(folder, console, home=home)
    with terminated.as_exit():
        try:
            yield made
        finally:
            made.end()


def table(*columns: str, title: str = "") -> Table:
    """An empty one, plain enough for a terminal."""
    made = Table(*columns, title=title or None, title_justify="left", box=None, pad_edge=False)
    made.title_style = "bold"
    return made


Show = Callable[[Stage], object]
