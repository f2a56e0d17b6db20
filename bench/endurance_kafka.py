"""`bench.endurance` behind MySQL, Debezium and Kafka: a job as its users start it, with the checkpoint of Spark's streaming query."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import yaml

from bench import watched
from bench.drains import drain, fill, pipeline
from bench.freshness import Pace, Traffic, Written, statements
from bench.stacks import fresh_stack
from bench.watched import SECONDS, Run
from ingest.config import pipeline_file
from ingest.demo.job import Job
from ingest.job import spark_session
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.local.stack import Stack
from ingest.model.manifest import Entry
from ingest.model.names import checkpoint_path
from ingest.observe.audit import Audit

TABLES = [f"t{index:03d}" for index in range(4)]
SHAPED = "shaped"
"""The table that gets DDLs; it is written by them alone."""
LOOKED_BACK = 20
"""Batches that may come between two looks, without one being missed."""
ROWS, PACE = 1_000, Pace(40, 1)
TURNS = (
    "ADD extra SMALLINT DEFAULT 1",
    "MODIFY extra INT DEFAULT 1",
    "RENAME COLUMN extra TO other",
    "DROP other",
)


def through_kafka(folder: Path, given: argparse.Namespace) -> Run:
    """The whole of it. Ends this process when a table is not what MySQL holds."""
    run, rng, lake = Run(), Random(given.seed), folder / "lake"
    half = given.batches // 2
    kills = set(rng.sample(range(2, half), min(given.kills, half // 4)))
    with fresh_stack("endurance") as (stack, _):
        fill(stack, [*TABLES, SHAPED], ROWS)
        drain(stack, lake, "ingest", [], 0)
        tables = {name: Written(born=ROWS) for name in TABLES}
        traffic = Traffic(stack, lake, tables, statements(tables, ROWS))
        stop = threading.Event()
        writer = threading.Thread(target=traffic.write, args=(PACE, stop, [0]), daemon=True)
        writer.start()
        job, ledger = _started(stack, lake), Ledger(str(lake))
        newest = _newest(ledger)
        first, looked, shaped = newest.batch_id, 0, 0
        try:
            while (done := newest.batch_id - first) < given.batches:
                job.refuse_dead()
                for entry in reversed(ledger.entries(LOOKED_BACK)):
                    if entry.batch_id > newest.batch_id:
                        run.batches.append(_said(entry, first))
                        newest = entry
                if done // given.ddl_every > shaped:
                    _shape(stack, shaped)
                    shaped += 1
                if done // given.every > looked and run.batches:
                    looked = done // given.every
                    run.looks.append(_look(lake, job, run, done, given))
                    if looked % 4 == 0:
                        print(f"batch {done}: {run.looks[-1][SECONDS]:.3f} s", flush=True)
                if due := {one for one in kills if one <= done}:
                    kills -= due
                    time.sleep(rng.uniform(0, 1))
                    assert job.kill() == -signal.SIGKILL
                    run.kills.append(done)
                    job = _started(stack, lake)
                time.sleep(0.05)
        finally:
            stop.set()
            writer.join(60)
            job.stop()
        run.note(folder)
        drain(stack, lake, "ingest", [], 0)
        refuse_different(lake)
    return run


def refuse_different(lake: Path) -> None:
    """End when a lake does not hold what MySQL does, by the audit."""
    there = pipeline_file.load(lake / "b.yaml")
    spark = spark_session.for_pipeline(there, lake / "audit.log")
    try:
        verdict = Audit(there, spark, print, wait=120).execute()
    finally:
        spark.stop()
    if not verdict.equal:
        sys.exit(f"the lake is not what MySQL holds: {verdict.outcome}")


def _newest(ledger: Ledger) -> Entry:
    newest = ledger.last()
    assert newest is not None
    return newest


def _said(entry: Entry, first: int) -> dict[str, Any]:
    return {
        "batch": entry.batch_id - first,
        "seconds": entry.seconds,
        "stages": dict(entry.stages),
        "changes": entry.changes,
    }


def _look(lake: Path, job: Job, run: Run, done: int, given: argparse.Namespace) -> dict[str, float]:
    checkpoint = sum(len(names) for _, _, names in os.walk(checkpoint_path(str(lake))))
    last = median(one["seconds"] for one in run.batches[-given.every :])
    return {
        "batch": done,
        "at": time.time() - run.since,
        **watched.lake(lake, [*TABLES, SHAPED]),
        "files of the checkpoint": checkpoint,
        "MB of what the job says": sum(one.stat().st_size for one in lake.glob("job.log*")) / 1e6,
        **watched.processes(job.process.pid),
        SECONDS: last,
    }


def _shape(stack: Stack, number: int) -> None:
    """The next DDL, and changes after it."""
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE d.{SHAPED} {TURNS[number % len(TURNS)]}")
        cursor.execute(f"UPDATE d.{SHAPED} SET changed = {number} WHERE id < 10")
        connection.commit()


def _started(stack: Stack, lake: Path) -> Job:
    file = lake / "b.yaml"
    pipeline(stack, file, lake, None)
    content = yaml.safe_load(file.read_text())
    content["spark"] = {"trigger_seconds": 0.05}
    content["lake"] |= {"history_hours": 1, "history_versions": 100}
    file.write_text(yaml.safe_dump(content))
    return Job.start(file, lake / "job.log", env={"INGEST_HOME": str(stack.home)})
