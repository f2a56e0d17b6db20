"""What flows cost the mirrors beside them: how old what a reader finds is, at 500 changes a second, without a flow, with a windowed one, with one that
joins each change with another table and writes it to MySQL, and with ones that fail.

    python -m bench.flow_price [--sides alone windowed throws away] [--rounds 3] [--warm 40] [--seconds 25]

Each side has a lake of its own and follows the same topics; one job runs at a time, in turns. The windowed flow counts one table's changes by the
minute, every ten seconds. ``throws`` has a function that fails in Spark's tasks; ``hungry`` one that asks for as much as Java's whole heap; the sink of
``away`` is away all the time (``--seconds 600``: for ten minutes each round), and in the end it comes back, and the flow brings there whatever it has missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from deltalake import DeltaTable

from bench import result_file
from bench.drains import drain, fill, pipeline, refuse_different, source_rows
from bench.freshness import Pace, Traffic, Written, statements
from bench.stacks import fresh_stack
from ingest.flows.flow_folder import FlowFolder
from ingest.local.stack import Stack

WINDOW = "window(committed_at, '1 minute')"
COUNTED = f"SELECT {WINDOW} window, operation, count(*) n FROM t GROUP BY {WINDOW}, operation"
FAILS = "SELECT raise_error('a flow that fails') x FROM t"
READS = {"change_log": "d.t000"}
FLOWS: dict[str, dict[str, Any]] = {
    "windowed": {
        "inputs": {"t": {**READS, "event_time": "committed_at", "watermark": "1 minute"}},
        "sinks": [{"delta": "flows/out"}],
    },
    "throws": {"inputs": {"t": READS}, "sinks": [{"delta": "flows/out"}]},
    "joined": {
        "inputs": {"t": READS, "other": {"table": "d.t001"}},
        "sinks": [
            {
                "mysql": "joined",
                "connection": "results",
                "keys": ["id"],
                "writes": "idempotent",
                "version": "position",
            }
        ],
        "trigger": "10 seconds",
    },
    "hungry": {"inputs": {"t": READS}, "sinks": [{"delta": "flows/out"}]},
    "away": {"inputs": {"t": READS}, "sinks": [{"files": "{lake}/mounted/out", "format": "json"}]},
}
JOINED = """SELECT after.id id, other.id other_id, operation, position FROM t JOIN other ON other.id = after.id
WHERE operation IN ('insert', 'update')"""
TEXTS = {
    "windowed": COUNTED,
    "throws": FAILS,
    "hungry": "SELECT right(repeat(operation, 340000000), 3) x FROM t",
    "away": "SELECT operation FROM t",
    "joined": JOINED,
}

RESULTS = "CREATE TABLE results.joined (id BIGINT PRIMARY KEY, other_id BIGINT, operation VARCHAR(9), position JSON)"


@contextmanager
def job(stack: Stack, lake: Path, side: str) -> Iterator[None]:
    """`ingest run`, as its users start it."""
    file = lake / "b.yaml"
    pipeline(stack, file, lake, None)
    content = yaml.safe_load(file.read_text())
    if side in FLOWS:
        (lake / "flow.sql").write_text(TEXTS[side])
        content["tables"] = {"d.t000": {"targets": ["mirror", "change_log"]}}
        mysql = stack.mysql()
        url, secret = f"mysql://root@127.0.0.1:{mysql.port}/results", str(mysql.secret("root"))
        content["connections"] = {"results": {"url": url, "password": {"file": secret}}}
        content["flows"] = {side: {"sql": str(lake / "flow.sql"), **FLOWS[side]}}
    file.write_text(yaml.safe_dump(content).replace("{lake}", str(lake)))
    if side == "away":
        (lake / "mounted").touch()  # a file where its folder should be
    command = [sys.executable, "-m", "ingest", "run", str(file), "--log", str(lake / "spark.log")]
    environment = {**os.environ, "INGEST_HOME": str(stack.home)}
    with (lake / "job.log").open("ab") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        time.sleep(10)  # Spark's start; the window before the one that counts covers the rest
        yield
        if side in FLOWS:
            from ingest.config.pipeline_file import load

            said = FlowFolder(load(file), side).status()
            print(
                f"  flow {side}: {said.state if said else 'has not begun'}, {said.rows if said else 0:,} rows",
                flush=True,
            )
    finally:
        process.terminate()
        process.wait(120)


def comes_back(lake: Path) -> None:
    """The sink that was away is there. Waits until it has each change of the log once; exits where it gets more."""
    log = lake / "d" / "t000__changes"
    (lake / "mounted").unlink()
    began, found, wanted = time.monotonic(), -1, 0
    while found < wanted:
        time.sleep(1)
        wanted = int(DeltaTable(log).count())
        parts = (lake / "mounted" / "out").rglob("part-*.json")
        found = sum(len(one.read_text().splitlines()) for one in parts)
        if time.monotonic() - began > 300:
            sys.exit(f"{found:,} of {wanted:,} rows after five minutes")
    if found > wanted:
        sys.exit(f"{found:,} rows, of {wanted:,} changes")
    took = time.monotonic() - began
    print(f"  its sink is there again: all {wanted:,} changes once, after {took:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sides", nargs="+", default=["alone", *FLOWS], choices=["alone", *FLOWS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=float, default=40)
    parser.add_argument("--seconds", type=float, default=25)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    pace, rows, names = Pace(500, 1), 10_000, [f"t{index:03d}" for index in range(10)]
    took: dict[str, list[float]] = {side: [] for side in given.sides}
    with fresh_stack("flows") as (stack, folder):
        fill(stack, names, rows)
        with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE results")
            cursor.execute(RESULTS)
        written = {name: Written(born=rows) for name in names}
        writes = statements(written, rows)
        for side in given.sides:
            drain(stack, folder / side, "ingest", names, 0)
        for number in range(given.rounds):
            for side in given.sides[:: 1 if number % 2 else -1]:
                for each in written.values():
                    each.table = None
                    each.unseen.clear()
                with job(stack, folder / side, side):
                    traffic = Traffic(stack, folder / side, written, writes)
                    traffic.window(pace, given.warm)
                    took[side].append(traffic.window(pace, given.seconds).age(0.5))
                    if side == "away" and number == given.rounds - 1:
                        comes_back(folder / side)
                print(f"round {number}: {side:<9}{took[side][-1]:.2f} s", flush=True)
        wanted = {name: source_rows(stack, name) for name in names}
        for side in given.sides:
            drain(stack, folder / side, "ingest", names, 0)
            refuse_different(folder / side, wanted)
    base = median(took[given.sides[0]])
    for side, ages in took.items():
        print(f"{side:<9}{median(ages):.2f} s: {median(ages) / base:.2f} x")
    result_file.write(given, "flow_price", took=took)


if __name__ == "__main__":
    main()
