"""Batches of many small tables: where a batch's time goes, without Kafka and MySQL.

    PYTHONPATH=. .venv/bin/python bench/many_tables.py [--tables 20] [--batches 4] [--changes 6]

Each table gets so many inserts per batch through the whole path (decode, order, quarantine, MERGE, manifest)
of real Spark and Delta; the content is checked at the end. The first batch is cold.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from bench import result_file
from ingest.job import spark_session
from ingest.model.position import Position
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import insert
from tests.conformance.targets import SparkTarget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--changes", type=int, default=6)
    parser.add_argument("--engine", choices=("auto", "spark", "delta-rs"), default="auto")
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-bench-") as folder:
        log = Path(folder) / "spark.log"
        spark = spark_session.create(
            "bench", master="local[2]", driver_memory="2g", conf={}, log=log
        )
        histories = [_history(given.batches * given.changes) for _ in range(given.tables)]
        settings = {"parallel_tables": 2, "merge_engine": given.engine}
        target = SparkTarget(spark, Path(folder), *histories, spark=settings)
        seconds = []
        for batch in range(1, given.batches + 1):
            started = time.perf_counter()
            target.take({index: [batch * given.changes] for index in range(given.tables)})
            seconds.append(time.perf_counter() - started)
            print(f"batch {batch}: {seconds[-1]:.1f} s", flush=True)
        for index, history in enumerate(histories):
            rows = sum(target.content(index).values())
            assert rows == len(history.records[0]), f"table {index} holds {rows} rows"
        median = statistics.median(seconds[1:])
        print(f"{given.tables} tables, {given.changes} changes each: median {median:.1f} s a batch")
        result_file.write(given, "many_tables", seconds=seconds)
        target.remove()
        spark.stop()


def _history(changes: int) -> History:
    history = History(True, 1, records=[[]])
    history.snapshots = [Position(0, 1, 5)]
    inserts = (insert(10 * (n + 1), n, f"v{n}") for n in range(changes))
    history.records[0] = [Record(one) for one in inserts]
    return history


if __name__ == "__main__":
    main()
