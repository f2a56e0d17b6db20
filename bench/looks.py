"""How long a start looks at the tables of a lake, before it decides where to go on.

    PYTHONPATH=. .venv/bin/python -m bench.looks [--tables 100] [--rounds 3]

Each look is a process of its own, as a restart is, with Spark warm; the lake holds three batches of a row for
each table.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

from bench import result_file
from bench.contestants import Ingest
from bench.stacks import fresh_spark
from bench.workload import Workload

_LOOK = """
import sys, time
from pathlib import Path
from ingest.job import spark_session
from ingest.start import gather_facts
from ingest.testing.lake import pipeline_at
folder = Path(sys.argv[1])
log = folder / "look.log"
spark = spark_session.create("look", master="local[2]", driver_memory="2g", conf={}, log=log)
spark.range(1).collect()
started = time.perf_counter()
found = gather_facts.gather(spark, pipeline_at(folder, "b"), {})
assert len(found.lake) == int(sys.argv[2])
print(time.perf_counter() - started)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    with fresh_spark("2g") as (spark, folder):
        work = Workload(given.tables, 0, 1, inserts=1.0)
        lake = Ingest(spark, folder, work)
        for number in range(3):
            lake.take(work.batch(folder / f"batch{number}.parquet"), work.names)
        spark.stop()
        took = []
        for _ in range(given.rounds):
            command = [sys.executable, "-c", _LOOK, str(folder), str(given.tables)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            took.append(float(done.stdout.split()[-1]))
            print(f"{took[-1]:.2f} s", flush=True)
        print(f"a look at {given.tables} tables: median {statistics.median(took):.2f} s")
        result_file.write(given, "looks", seconds=took)


if __name__ == "__main__":
    main()
