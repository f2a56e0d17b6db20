"""The answers to the questions of docs/performance.md, each a sentence made of its results. Pure."""

from __future__ import annotations

from bench.figures.question import ratio
from bench.figures.results import Result


def drain(found: Result) -> str:
    rate = found.of("one batch", "ingest", "changes_a_second")
    part = found.of("one batch", "ingest", "seconds_of_stock")
    return f"{round(rate, -4):,.0f} changes a second; {ratio(part)} of the stock job's time"


def merge(found: Result) -> str:
    small, large = (
        found.of(f"{rows} rows", "ingest", "seconds_of_stock")
        for rows in ("a million", "ten million")
    )
    return f"{ratio(small)} of the stock job's time; into ten million rows {ratio(large)}"


def many(found: Result) -> str:
    part = found.of("100 tables", "ingest", "seconds_of_stock")
    return f"{ratio(part)} of the stock job's time"


def fresh(found: Result) -> str:
    slow, fast = (found.of("two paces", pace, "median") for pace in ("500", "2000"))
    return f"{slow:.2f} s at 500 changes a second, {fast:.2f} s at 2,000"


def whole(found: Result) -> str:
    snapshot, stream = (
        found.of("one machine", "ingest", f"{part}_a_second_of_kafka")
        for part in ("rows", "changes")
    )
    return f"{snapshot:.2f} of it in a snapshot, {stream:.2f} in the stream"


def lie(found: Result) -> str:
    recent, zipf = (
        found.of(case, "ingest", "megabytes_of_stock") for case in ("recent keys", "zipf keys")
    )
    scans = [
        found.of(case, "ingest", f"scan_{reader}")
        for case in found.runs
        for reader in ("spark", "delta_rs")
    ]
    return (
        f"{ratio(recent)} of the stock job's bytes where the newest rows change, {ratio(zipf)} where any may; "
        f"a scan takes {ratio(min(scans))} to {ratio(max(scans))} of a compacted copy's time"
    )


def old(found: Result) -> str:
    return f"{found.of('2,000 batches', 'old', 'seconds_of_young'):.2f} times as long after 2,000 batches"


def still(found: Result) -> str:
    return f"300 of them: {found.of('300 idle', 'with', 'seconds_of_without'):.2f} times as long a batch"


def lanes(found: Result) -> str:
    tasks, spark = (
        found.of("a backlog", who, "seconds_of_stock") for who in ("ingest_tasks", "ingest_spark")
    )
    mine, driver = (
        found.of("a backlog", who, "seconds") for who in ("ingest_tasks", "ingest_driver")
    )
    return (
        f"read in Spark's tasks a backlog takes {ratio(tasks)} of the stock job's time, {mine / driver:.1f} times as long as in the driver; "
        f"merged by Spark, too, {ratio(spark)}"
    )


def sizes(found: Result) -> str:
    small, large = (
        found.of(name, "ingest_tasks", "of_driver") for name in ("100 changes", "100,000 changes")
    )
    return (
        f"of 100 changes a batch takes {small:.1f} times as long in Spark's tasks as in the driver, of 100,000 "
        f"{large:.1f} times; Spark's own MERGE plans for seconds"
    )


def starts(found: Result) -> str:
    kept, cold = (found.of("a start", who, "seconds") for who in ("with", "without"))
    part = found.of("a start", "with", "seconds_of_without")
    return f"Spark is up in {part:.2f} of the time from the second start on: {kept:.1f} s, not {cold:.1f}"
