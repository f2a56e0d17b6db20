"""The demo's story, in the order in which it happens. Every kill is real and is checked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml
from pyspark.sql import SparkSession

from ingest.config import pipeline_file
from ingest.config.pipeline_file import Pipeline
from ingest.demo.folder import empty
from ingest.demo.job import Job
from ingest.demo.view import Picture, View
from ingest.job import first_pipeline_file, spark_session
from ingest.lake.files import object_store
from ingest.lake.manifest.manifest_reader import Ledger, age
from ingest.local import process, terminated
from ingest.local.mysql import PIPELINE
from ingest.local.stack import Stack
from ingest.model.counted import counted
from ingest.model.errors import Exit, IngestError
from ingest.model.gtid import GtidSet
from ingest.model.names import join
from ingest.observe import lanes
from ingest.observe.audit import Audit
from ingest.observe.pipeline_status import not_delivered, pending
from ingest.observe.verdict import Verdict
from ingest.observe.verdict_table import verdict_table
from ingest.sample import world
from ingest.sample.traffic import Traffic
from ingest.source import mysql

_PATIENCE = 240.0
_MID_BATCH = "table_committed@2:hold"
"""The job stands still after the first table of a batch of live changes, until it is killed."""


_ALL = 1_000
"""Rows of the manifest: more than a demo makes batches."""


@dataclass
class Demo:
    """One demo in a folder of its own. ``seconds``: how long live traffic lasts at least; ``settings``: sections of its pipeline file in place of its own, such as
    a cluster's and an object store's.
    """

    home: Path
    seconds: float = 30.0
    keep: bool = False
    view: View = field(default_factory=View)
    settings: Mapping[str, Any] = field(default_factory=dict)
    _job: Job | None = None
    _picture: Picture = field(default_factory=Picture)
    _peak: int = 0

    def execute(self) -> None:
        """Tell the story. Raises :class:`IngestError` unless it ends in the proof."""
        with terminated.as_exit():
            self._tell(Stack.at(self.home))

    def _tell(self, stack: Stack) -> None:
        stopping = threading.Event()
        try:
            self._prepare(stack)
            pipeline = self._pipeline(stack)
            self._snapshot(stack, pipeline)
            traffic = Traffic(stack.mysql().admin, per_second=60)
            writer = threading.Thread(target=traffic.run, args=(stopping,), daemon=True)
            self._live(stack, pipeline, traffic, writer, stopping)
            self._prove(stack, pipeline)
        finally:
            stopping.set()
            self.view.close()
            if self._job:
                with contextlib.suppress(ProcessLookupError):
                    self._job.kill()
            if self.keep:
                self.view.say(f"the stack keeps running: ingest local down --home {self.home}")
            else:
                stack.down()

    # --- chapters ----------------------------------------------------------------------------

    def _prepare(self, stack: Stack) -> None:
        self.view.chapter("A real MySQL, Kafka and Connect, on loopback, from pinned artefacts")
        empty(stack, self.home / "lake", self._file)
        stack.up({}, self.view.say)
        with stack.mysql().admin() as connection, connection.cursor() as cursor:
            world.create(cursor)
            rows = world.rows(cursor)
        self.view.say(f"a small shop is in MySQL: {len(world.TABLES)} tables, {rows:,} rows")

    def _pipeline(self, stack: Stack) -> Pipeline:
        mysql = stack.mysql()
        file = self.home / "pipeline.yaml"
        first = first_pipeline_file.First(
            f"mysql://{PIPELINE}@127.0.0.1:{mysql.port}",
            mysql.secret(PIPELINE),
            ("shop.*",),
            "shop",
            None,
            None,
            str(self.home / "lake"),
        )
        first_pipeline_file.write(first, file, self.home, force=True)
        # A demo is over before the JVM's second compiler would pay (bench/ has both).
        with file.open("a") as text:
            text.write(f"\nspark:\n  conf: {json.dumps(spark_session.SHORT)}\n")
        if self.settings:
            said = yaml.safe_load(file.read_text(encoding="utf-8"))
            file.write_text(yaml.safe_dump({**said, **self.settings}), encoding="utf-8")
        self.view.say(f"the pipeline is one file: {file}")
        pipeline = pipeline_file.load(file)
        object_store.lend(pipeline.lake)
        return pipeline

    def _snapshot(self, stack: Stack, pipeline: Pipeline) -> None:
        self.view.chapter("Snapshot: every row into Delta, tables made with exact types")
        self._job = self._run("job-1.log", _MID_BATCH)
        self._picture.job = "running"
        self.view.open()
        ledger = Ledger(pipeline.lake.path)
        self._until(stack, pipeline, lambda: ledger.last() is not None)
        entry = ledger.last()
        assert entry is not None
        self.view.say(
            f"batch {entry.batch_id} is published: "
            f"{counted(entry.changes, 'row')} in {counted(len(entry.tables), 'table')}"
        )

    def _live(
        self,
        stack: Stack,
        pipeline: Pipeline,
        traffic: Traffic,
        writer: threading.Thread,
        stopping: threading.Event,
    ) -> None:
        self.view.chapter("Live traffic, and two kills on purpose")
        writer.start()
        started = time.monotonic()
        self._kill_job(stack, pipeline, traffic)
        self._ddl(stack)
        self._wait(stack, pipeline, traffic, 6)
        # A job that has just begun refuses a worker that is away; one that runs goes on without.
        ledger = Ledger(pipeline.lake.path)
        before = ledger.last()
        self._until(stack, pipeline, lambda: ledger.last() != before, traffic)
        self._kill_connect(stack, pipeline, traffic)
        left = self.seconds - (time.monotonic() - started)
        self._wait(stack, pipeline, traffic, max(0.0, left))
        stopping.set()
        writer.join(30)
        self.view.chapter("Traffic stops; the pipeline drains")
        self._until(stack, pipeline, lambda: self._drained(pipeline), traffic)
        assert self._job
        self._picture.job = "stopping"
        self._job.stop()
        self._job = None
        self.view.close()
        kinds = ", ".join(f"{name} {count:,}" for name, count in sorted(traffic.done.items()))
        self.view.say(f"{traffic.transactions:,} transactions: {kinds}")
        read = Counter[str]()
        for entry in Ledger(pipeline.lake.path).entries(_ALL):
            read.update(entry.lanes)
        self.view.say(f"changes read {lanes.in_words(read)}")
        self.view.say(f"peak memory of all parts: {self._peak / 2**30:.1f} GiB resident")

    def _kill_job(self, stack: Stack, pipeline: Pipeline, traffic: Traffic) -> None:
        """SIGKILL the Spark job in the middle of a batch."""
        job = self._job
        assert job
        self._until(stack, pipeline, lambda: job.reached() is not None, traffic)
        newest = Ledger(pipeline.lake.path).last()
        waiting = sum(table.pending for table in pending(pipeline, newest))
        status = job.kill()
        _check(status == -signal.SIGKILL, f"the job ended with {status}, not by SIGKILL")
        _check(waiting > 0, "nothing was waiting when the job was killed")
        after = Ledger(pipeline.lake.path).last()
        _check(
            newest is not None and after is not None and after.batch_id == newest.batch_id,
            "the batch was published before the kill",
        )
        self.view.say(
            f"KILL 1  Spark job, SIGKILL in mid-batch ({job.reached()}); "
            f"{waiting:,} records not applied"
        )
        self._job = self._run("job-2.log")
        self._picture.job = "restarted"

    def _kill_connect(self, stack: Stack, pipeline: Pipeline, traffic: Traffic) -> None:
        """SIGKILL the Connect worker in the middle of the stream.

        What is committed while it is dead is in MySQL and cannot be in Kafka. That is counted before it runs again:
        it delivers at once, and on a slow machine all of it before anybody looks.
        """
        child = stack.children["connect"]
        os.kill(child.pid, signal.SIGKILL)
        self._picture.connect = "KILLED"
        until = time.monotonic() + 10
        while process.returncode(child) is None and time.monotonic() < until:
            time.sleep(0.05)
        status = process.returncode(child)
        _check(status == -signal.SIGKILL, f"the worker ended with {status}, not by SIGKILL")
        at_its_death = _committed(stack)
        self._wait(stack, pipeline, traffic, 2)
        self._until(
            stack, pipeline, lambda: _committed(stack).minus_count(at_its_death) > 0, traffic
        )
        health = next(part for part in stack.status() if part.part == "connect")
        _check(health.state == "died", "the stack did not notice that the worker died")
        missing = _committed(stack).minus_count(at_its_death)
        stack.up({})
        self._picture.connect = "restarted"
        self.view.say(
            f"KILL 2  Connect worker, SIGKILL in mid-stream; {missing:,} transactions "
            "were in MySQL and not in Kafka"
        )

    def _ddl(self, stack: Stack) -> None:
        with stack.mysql().admin() as connection, connection.cursor() as cursor:
            cursor.execute("ALTER TABLE shop.customers ADD COLUMN points INT NOT NULL DEFAULT 5")
            cursor.execute("UPDATE shop.customers SET points = 50 WHERE id <= 20")
        self.view.say("DDL     ALTER TABLE shop.customers ADD COLUMN points INT NOT NULL DEFAULT 5")

    def _prove(self, stack: Stack, pipeline: Pipeline) -> None:
        self.view.chapter("The proof: every row of every table, MySQL against Delta")
        spark = spark_session.for_pipeline(pipeline, self.home / "logs" / "audit.log")
        try:
            verdict = Audit(pipeline, spark, self.view.say, wait=60).execute()
            self.view.console.print(verdict_table(verdict))
            if verdict.equal:
                self._time_travel(spark, pipeline)
        finally:
            spark.stop()
        if not verdict.equal:
            raise IngestError(
                "E-DEMO-PROOF",
                f"The demo's audit ended with {verdict.outcome!r}.",
                remedy=f"look into {self.home}/logs and report it.",
                exit_code=Exit.DIFFERENT,
            )
        self._next_steps()
        self.view.console.print(proof_line(verdict), markup=False)

    def _time_travel(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self.view.chapter("Time travel: the same row at two versions of its table")
        path = join(pipeline.lake.path, "shop", "orders")
        current = spark.read.format("delta").load(path)
        states = [one.tables.get("shop.orders") for one in Ledger(pipeline.lake.path).entries(_ALL)]
        # The first batches may hold a part of the snapshot, whose rows nothing has changed since.
        for version in sorted({state.version for state in states if state}):
            before = spark.read.format("delta").option("versionAsOf", version).load(path)
            changed = (
                current.alias("now")
                .join(before.alias("then"), "id")
                .where("now.status <> then.status")
                .selectExpr(
                    "id",
                    "then.status AS was",
                    "now.status AS is_now",
                    "now._ingest.position AS place",
                )
                .orderBy("id")
                .first()
            )
            if changed:
                self.view.say(
                    f"SELECT status FROM delta.`{path}` VERSION AS OF {version} WHERE id = {changed.id}"
                )
                self.view.say(f"  → {changed.was}")
                self.view.say(f"SELECT status FROM delta.`{path}` WHERE id = {changed.id}")
                self.view.say(
                    f"  → {changed.is_now}, since binlog file {changed.place.file}, "
                    f"position {changed.place.pos}"
                )
                return
        self.view.say("no order has changed between two versions this time; each batch makes one")

    def _next_steps(self) -> None:
        self.view.chapter("Next, with a MySQL of your own")
        for line in (
            "ingest local up                                        # Kafka and Connect, or your own",
            "ingest init --mysql mysql://USER@HOST:3306 --password-file F \\",
            "            --tables 'DATABASE.*' -o pipeline.yaml",
            "ingest run pipeline.yaml                               # keeps the lake equal",
            "ingest audit pipeline.yaml                             # proves it",
        ):
            self.view.console.print(f"       {line}", markup=False)
        self.view.console.print()

    def _run(self, log: str, failpoint: str | None = None) -> Job:
        """A job with the stack's mark: where the demo itself is killed, `ingest local down` ends it, too."""
        env = {process.GUEST_VARIABLE: str(self.home.resolve())}
        return Job.start(self._file, self.home / "logs" / log, failpoint, env=env)

    # --- waiting and watching ----------------------------------------------------------------

    @property
    def _file(self) -> Path:
        return self.home / "pipeline.yaml"

    def _until(
        self,
        stack: Stack,
        pipeline: Pipeline,
        reached: Callable[[], bool],
        traffic: Traffic | None = None,
    ) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not reached():
            if self._job:
                self._job.refuse_dead()
            if time.monotonic() > deadline:
                raise IngestError(
                    "E-DEMO-SLOW",
                    f"The demo waited {_PATIENCE:.0f} s for its next step in vain.",
                    remedy=f"look into {self.home}/logs.",
                    exit_code=Exit.FAILED,
                )
            self._look(stack, pipeline, traffic)
            time.sleep(0.4)

    def _wait(self, stack: Stack, pipeline: Pipeline, traffic: Traffic, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._until(stack, pipeline, lambda: time.monotonic() >= until, traffic)

    def _drained(self, pipeline: Pipeline) -> bool:
        newest = Ledger(pipeline.lake.path).last()
        return not_delivered(pipeline) == 0 and not any(
            table.pending for table in pending(pipeline, newest)
        )

    def _look(self, stack: Stack, pipeline: Pipeline, traffic: Traffic | None) -> None:
        picture = self._picture
        newest = Ledger(pipeline.lake.path).last()
        picture.transactions = traffic.transactions if traffic else 0
        picture.tables = pending(pipeline, newest)
        try:
            picture.missing = not_delivered(pipeline)
        except IngestError:
            picture.missing = None
        if newest is not None and newest.batch_id != picture.batch:
            picture.batch = newest.batch_id
            picture.changes = Ledger(pipeline.lake.path).total_changes()
        behind = age(newest, time.time()) if newest and traffic else None
        picture.behind_seconds = behind.total_seconds() if behind else None
        if picture.connect == "restarted" and picture.missing is not None:
            picture.connect = "running"
        me = psutil.Process().memory_info().rss
        job = self._job.resident_bytes() if self._job else 0
        picture.memory_bytes = stack.resident_bytes() + job + me
        self._peak = max(self._peak, picture.memory_bytes)
        self.view.show(picture)


def proof_line(verdict: Verdict) -> str:
    """The demo's last line."""
    rows = sum(table.source_rows for table in verdict.tables)
    differences = sum(table.differences for table in verdict.tables)
    return (
        f"PROOF lake = source: {len(verdict.tables)} tables, {rows} rows, {differences} differences"
    )


def _committed(stack: Stack) -> GtidSet:
    """Every transaction that MySQL has committed."""
    with stack.mysql().admin() as connection, connection.cursor() as cursor:
        return mysql.reached(cursor).gtids


def _check(fact: bool, otherwise: str) -> None:
    if not fact:
        raise IngestError(
            "E-DEMO-KILL",
            f"Killing a process of the demo did not go as planned: {otherwise}.",
            remedy="run the demo again on a quieter machine, or report it.",
            exit_code=Exit.FAILED,
        )
