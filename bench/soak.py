"""Seeded kills of job and worker under traffic for a chosen time, then the audit.

    python bench/soak.py [--seconds 600] [--seed N]

Prints the seed and each kill; ends with the verdict. Exit code 0 only when lake = source and every log is true.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from ingest.config import pipeline_file
from ingest.demo.job import Job
from ingest.job import spark_session
from ingest.job.first_pipeline_file import First, write
from ingest.local.mysql import PIPELINE
from ingest.local.stack import Stack
from ingest.observe.audit import Audit
from ingest.sample import world
from ingest.sample.traffic import Traffic
from tests.outside import log
from tests.support.server import Server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="ingest-soak-") as folder:
        stack = Stack.at(Path(folder))
        stack.up({}, print)
        try:
            sys.exit(soak(stack, Path(folder), given.seconds, random.Random(given.seed)))
        finally:
            stack.down()


def soak(stack: Stack, folder: Path, seconds: float, rng: random.Random) -> int:
    server = Server(stack)
    world.create(server.connect().cursor())
    mysql = stack.mysql()
    file = folder / "shop.yaml"
    url = f"mysql://{PIPELINE}@127.0.0.1:{mysql.port}"
    write(
        First(url, mysql.secret(PIPELINE), ("shop.*",), "shop", None, None, str(folder / "lake")),
        file,
        folder,
        force=True,
    )
    stop = threading.Event()
    traffic = Traffic(server.connect, seed=rng.randrange(10**6), per_second=40)
    writer = threading.Thread(target=traffic.run, args=(stop,), daemon=True)
    writer.start()
    until = time.monotonic() + seconds
    kills = {"job": 0, "worker": 0}
    job = Job.start(file, folder / "logs" / "job.log")
    while time.monotonic() < until:
        time.sleep(rng.uniform(5, 45))
        job.refuse_dead()
        if rng.random() < 0.6:
            status = job.kill()
            assert status == -signal.SIGKILL, status
            kills["job"] += 1
            job = Job.start(file, folder / "logs" / "job.log")
        else:
            os.kill(stack.children["connect"].pid, signal.SIGKILL)
            time.sleep(1)
            stack.up({})
            kills["worker"] += 1
        print(f"{traffic.transactions:,} transactions, kills {kills}", flush=True)
    stop.set()
    writer.join(60)
    pipeline = pipeline_file.load(file)
    spark = spark_session.for_pipeline(pipeline, folder / "logs" / "audit.log")
    verdict = Audit(pipeline, spark, print, wait=300).execute()
    spark.stop()
    job.stop()
    for table in verdict.tables:
        for example in table.examples:
            print(f"  {table.name}  {example.key}: {example.found}")
    differences = sum(table.differences for table in verdict.tables)
    print(
        f"{traffic.transactions:,} transactions, kills {kills}: {verdict.outcome}, "
        f"{differences} differences"
    )
    return 0 if verdict.equal and not log.main(str(folder / "lake" / "shop")) else 1


if __name__ == "__main__":
    main()
