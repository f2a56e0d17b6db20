"""The questions of docs/performance.md: what each asks, which runs answer it, what its table and its picture show. Pure.

A question's name (P1, P2, …) stays when its measurement is made better, so that issues and pages can cite it.
"""

from __future__ import annotations

from bench.figures import answers
from bench.figures.question import Bars, Case, Column, Question

OURS = {"stock": "stock", "ingest": "ingest", "lean": "lean"}
_MERGES = {"changes": 1000, "tables": 1, "apart": True}
_LAYOUT = {"rows": 1_000_000, "changes": 1000, "batches": 200, "young": False}
_STOCK = {"stock": "stock", "ingest": "ingest"}
_LANES = {
    "ingest_driver": "read in the driver",
    "ingest_tasks": "read in Spark's tasks",
    "ingest_spark": "the same, merged by Spark",
}
_SIZES = {
    **{f"{size:,} changes": f"{size:,}" for size in (100, 1000, 10_000, 100_000)},
    "all that is left": "rest",
}

QUESTIONS = (
    Question(
        "P1",
        "p1-drain",
        "How fast is a backlog applied?",
        answers.drain,
        (
            Case(
                "one batch",
                "drains",
                {"tables": 10, "rows": 50_000, "transactions": 1_000_000, "each": 10},
                {"stock": "stock", "ingest": "ingest", "lean": "lean, batches of 100,000"},
                "stock",
            ),
            Case(
                "batches of 40,000",
                "drains",
                {"tables": 4, "rows": 50_000, "transactions": 100_000, "each": 1, "limit": 40_000},
                {"stock-limited": "stock", "ingest-limited": "ingest"},
                "stock-limited",
            ),
        ),
        (
            Column("Seconds", "seconds", 1),
            Column("CPU seconds per million changes", "cpu_per_million"),
            Column("MB", "megabytes"),
            Column("Of stock's time", "seconds_of_stock", ratio=True),
            Column("Of stock's CPU", "cpu_per_million_of_stock", ratio=True),
        ),
        "time, as a part of the stock job's (shorter is better)",
        (
            Bars("in one batch", "one batch", "seconds_of_stock", "seconds", "s"),
            Bars("in batches of 40,000", "batches of 40,000", "seconds_of_stock", "seconds", "s"),
        ),
        ours=frozenset({"ingest", "ingest-limited"}),
    ),
    Question(
        "P2",
        "p2-merge",
        "What does a small batch into a large table cost?",
        answers.merge,
        (
            Case("a million rows", "merges", {**_MERGES, "rows": 1_000_000}, OURS, "stock"),
            Case("ten million rows", "merges", {**_MERGES, "rows": 10_000_000}, OURS, "stock"),
        ),
        (
            Column("Seconds", "seconds", 2),
            Column("CPU seconds", "cpu", 2),
            Column("Apply", "apply", 2),
            Column("Of stock's time", "seconds_of_stock", ratio=True),
            Column("Of stock's apply", "apply_of_stock", ratio=True),
        ),
        "time, as a part of the stock job's (shorter is better)",
        (
            Bars(
                "1,000 changes into a million rows",
                "a million rows",
                "seconds_of_stock",
                "seconds",
                "s",
            ),
            Bars(
                "1,000 changes into ten million rows",
                "ten million rows",
                "seconds_of_stock",
                "seconds",
                "s",
            ),
        ),
    ),
    Question(
        "P3",
        "p3-many-tables",
        "What do a hundred tables in one batch cost?",
        answers.many,
        (
            Case(
                "100 tables",
                "merges",
                {"tables": 100, "rows": 50_000, "changes": 100, "apart": True},
                OURS,
                "stock",
            ),
            Case(
                "10 tables",
                "merges",
                {"tables": 10, "rows": 50_000, "changes": 100},
                {"ingest": "ingest", "lean": "lean"},
                "",
            ),
        ),
        (
            Column("Seconds", "seconds"),
            Column("CPU seconds", "cpu"),
            Column("Apply", "apply"),
            Column("Of stock's time", "seconds_of_stock", ratio=True),
            Column("Of stock's CPU", "cpu_of_stock", ratio=True),
            Column("Of stock's apply", "apply_of_stock", ratio=True),
        ),
        "time, as a part of the stock job's (shorter is better)",
        (
            Bars(
                "100 changes to each of 100 tables",
                "100 tables",
                "seconds_of_stock",
                "seconds",
                "s",
            ),
        ),
    ),
    Question(
        "P4",
        "p4-freshness",
        "How old is what a reader sees?",
        answers.fresh,
        (
            Case(
                "two paces",
                "freshness",
                {"tables": 10, "rows": 10_000, "rate": [500, 2000], "each": [1, 10]},
                {"500": "500 changes a second", "2000": "2,000 changes a second"},
                "",
            ),
        ),
        (
            Column("In a transaction", "each"),
            Column("Inserts seen, a round", "inserts"),
            Column("Median, s", "median", 2),
            Column("At 90 %, s", "at_90", 2),
            Column("At 99 %, s", "at_99", 2),
            Column("Worst, s", "worst", 2),
            Column("A batch, s", "batch_seconds", 2),
            Column("Changes in it", "batch_changes"),
        ),
        "seconds from MySQL's commit until a reader of Delta sees the row",
        (
            Bars("half of all rows within", "two paces", "median"),
            Bars("9 of 10 within", "two paces", "at_90"),
            Bars("99 of 100 within", "two paces", "at_99"),
            Bars("the last one", "two paces", "worst"),
        ),
        unit="s",
        ours=frozenset({"500", "2000"}),
        first_columns=("Case", "Pace"),
    ),
    Question(
        "P5",
        "p5-from-mysql-to-the-lake",
        "How much of Debezium's own speed is kept?",
        answers.whole,
        (
            Case(
                "one machine",
                "end_to_end",
                {"tables": 4, "rows": 100_000, "changes": 100_000, "each": 10},
                {"kafka": "Debezium to Kafka alone", "ingest": "ingest, to Delta"},
                "kafka",
            ),
        ),
        (
            Column("Rows a second by the snapshot", "rows_a_second", 0),
            Column("Changes a second", "changes_a_second", 0),
            Column("Of Kafka's rows", "rows_a_second_of_kafka", ratio=True),
            Column("Of Kafka's changes", "changes_a_second_of_kafka", ratio=True),
        ),
        "speed, as a part of Debezium's to Kafka alone (longer is better)",
        (
            Bars(
                "the snapshot", "one machine", "rows_a_second_of_kafka", "rows_a_second", "rows/s"
            ),
            Bars(
                "the stream",
                "one machine",
                "changes_a_second_of_kafka",
                "changes_a_second",
                "changes/s",
            ),
        ),
    ),
    Question(
        "P6",
        "p6-how-files-lie",
        "What do small batches write, and how do files lie then?",
        answers.lie,
        tuple(
            Case(f"{keys} keys", "layout", {**_LAYOUT, "keys": keys}, _STOCK, "stock")
            for keys in ("recent", "zipf")
        ),
        (
            Column("MB written a batch", "megabytes", 2),
            Column("Of stock's", "megabytes_of_stock", ratio=True),
            Column("Live files", "files"),
            Column("Scan by Spark, of the copy's", "scan_spark", ratio=True),
            Column("By delta-rs", "scan_delta_rs", ratio=True),
        ),
        "megabytes written a batch, as a part of the stock job's (shorter is better)",
        (
            Bars(
                "where the newest 20,000 rows change",
                "recent keys",
                "megabytes_of_stock",
                "megabytes",
                "MB",
            ),
            Bars(
                "where any of a million rows may change",
                "zipf keys",
                "megabytes_of_stock",
                "megabytes",
                "MB",
            ),
        ),
    ),
    Question(
        "P7",
        "p7-a-lake-that-grows-old",
        "Does a lake become slower with age?",
        answers.old,
        (
            Case(
                "2,000 batches",
                "layout",
                {**_LAYOUT, "keys": "recent", "batches": 2000, "young": True},
                {"young": "a young lake, batches 20 to 30", "old": "an old one, the last of 2,000"},
                "young",
            ),
        ),
        (
            Column("Seconds a batch", "seconds", 3),
            Column("Of the young lake's", "seconds_of_young", ratio=True),
        ),
        "seconds a batch of 1,000 changes (shorter is better)",
        (Bars("", "2,000 batches", "seconds"),),
        unit="s",
        ours=frozenset({"old"}),
        first_columns=("Case", "Lake"),
    ),
    Question(
        "P8",
        "p8-tables-that-stand-still",
        "What do tables cost that stand still?",
        answers.still,
        (
            Case(
                "300 idle",
                "idle",
                {"tables": 10, "idle": 300, "rows": 50_000, "changes": 100},
                {"without": "10 busy tables alone", "with": "300 idle ones beside them"},
                "without",
            ),
        ),
        (
            Column("Seconds a batch", "seconds", 2),
            Column("CPU seconds", "cpu", 2),
            Column("Of the time without", "seconds_of_without", ratio=True),
        ),
        "seconds a batch (shorter is better)",
        (Bars("", "300 idle", "seconds"),),
        unit="s",
        ours=frozenset({"with"}),
        first_columns=("Case", "Lake"),
    ),
    Question(
        "P9",
        "p9-starts",
        "How long does a start take?",
        answers.starts,
        (
            Case(
                "a start",
                "starts",
                {},
                {"without": "Java loads its classes anew", "with": "from its archive of classes"},
                "without",
            ),
        ),
        (
            Column("Seconds", "seconds", 1),
            Column("CPU seconds", "cpu", 1),
            Column("Of the time without", "seconds_of_without", ratio=True),
        ),
        "seconds until Spark is up (shorter is better)",
        (Bars("", "a start", "seconds"),),
        unit="s",
        ours=frozenset({"with"}),
        first_columns=("Case", "Start"),
    ),
    Question(
        "P10",
        "p10-who-carries-the-data",
        "What does it cost that Spark carries the data?",
        answers.lanes,
        tuple(
            Case(
                name,
                "drains",
                {
                    "tables": 10,
                    "rows": 50_000,
                    "transactions": 1_000_000,
                    "each": 10,
                    "ddl": ddl,
                },
                {**_LANES, **stock},
                "stock" if stock else "",
            )
            for name, ddl, stock in (
                ("a backlog", False, {"stock": "stock"}),
                ("with a DDL per table", True, dict[str, str]()),
            )
        ),
        (
            Column("Seconds", "seconds", 1),
            Column("CPU seconds per million changes", "cpu_per_million"),
            Column("MB", "megabytes"),
            Column("Of stock's time", "seconds_of_stock", ratio=True),
            Column("Of stock's CPU", "cpu_per_million_of_stock", ratio=True),
        ),
        "seconds (shorter is better)",
        (
            Bars("a backlog", "a backlog", "seconds"),
            Bars("with a column for each table in its middle", "with a DDL per table", "seconds"),
        ),
        unit="s",
        ours=frozenset(_LANES),
    ),
    Question(
        "P11",
        "p11-sizes-of-batches",
        "Which lane is right for which size of a batch?",
        answers.sizes,
        tuple(
            Case(name, "lanes", {"tables": 10, "rows": 50_000, "size": size}, _LANES, "")
            for name, size in _SIZES.items()
        ),
        (
            Column("Changes a batch", "changes", 0),
            Column("Seconds", "seconds", 2),
            Column("CPU seconds", "cpu", 2),
            Column("Changes a second", "changes_a_second", 0),
            Column("Times the driver's seconds", "of_driver", 1),
        ),
        "seconds, as times of the driver's (shorter is better)",
        tuple(Bars(name, name, "of_driver", "seconds", "s") for name in _SIZES),
        ours=frozenset(_LANES),
    ),
)
BY_NAME = {one.name: one for one in QUESTIONS}
