"""What other readers make of our tables, feature by feature; docs/readers.md is this table.

python -m tests.capability.test_readers    # prints the page's table
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.merge_on_read import mark
from ingest.schema import evolution
from ingest.targets.mirror import Mirror
from tests.outside.packages import installed
from tests.spark.lake.test_evolution import column, version

ROOT = Path(__file__).parents[2]

TABLES = {
    "plain": "plain",
    "instants": "with a DATETIME",
    "mapped": "of more than 64 MiB, after a RENAME or DROP (column mapping)",
    "widened": "of more than 64 MiB, after a wider type (type widening)",
    "both": "after both",
    "odd": "with a blank in a column's name (column mapping)",
    "marked": "of two million rows or more, after a batch of changes to all of it (deletion vectors)",
}
READERS = {
    "spark": "Spark 4 with Delta 4",
    "duckdb": "DuckDB 1.5, `delta_scan`",
    "datafusion": "delta-rs 1.6, `QueryBuilder`",
    "pyarrow": "delta-rs 1.6, `to_pyarrow_table`, `to_pandas`",
    "polars": "Polars 2, `scan_delta`, `read_delta`",
}
REFUSED = {
    "datafusion": {"widened", "both"},
    "pyarrow": {"mapped", "widened", "both", "odd", "marked"},
    "polars": {"mapped", "widened", "both", "odd"},
}
"""Each says so by an error that names the feature; everything else is read right. No reader gets a
wrong value or a NULL that is none."""

BEFORE_DDL = {"mapped", "widened", "both", "marked"}
"""Tables whose version from before the DDL (or the first marks) is read, too: every reader reads it right."""

NAMED = {"widened": "widening", "both": "widening", "marked": "deletionvectors"}
"""What a refusal names, where it is not the mapping."""


def table() -> str:
    """The Markdown of docs/readers.md."""
    head = ["A table …", *READERS.values()]
    lines = [head, ["---"] * len(head)]
    for name, words in TABLES.items():
        told = ["refuses" if name in REFUSED.get(reader, ()) else "yes" for reader in READERS]
        lines.append([words, *told])
    old = ["the version from before such a DDL", *["yes" for _ in READERS]]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*lines, old])


@pytest.fixture(scope="module")
def packages():
    return installed()


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """One table per kind, and what each has to read as, by Spark's own text of the values."""
    folder = tmp_path_factory.mktemp("readers")
    made = {}
    instant = "timestamp_ntz'2024-02-29 01:02:03.456789' at"
    rows = f"SELECT 1 id, 7 n, {instant}, CAST(12.34 AS DECIMAL(20,2)) price"
    base = [
        column("id"),
        column("n"),
        column("at", "DATETIME", 6),
        column("price", "DECIMAL", 20, 2),
    ]
    few, fewer = [base[0], base[1], column("price")], "SELECT 1 id, 7 n, 5 price"
    for name, before, found, after in (
        ("plain", [base[0], base[1]], "SELECT 1 id, 7 n", None),
        ("instants", base, rows, None),
        ("odd", [base[0], column("a b")], "SELECT 1 id, 7 `a b`", None),
        ("marked", [base[0], base[1]], "SELECT 1 id, 7 n", None),
        ("mapped", few, fewer, ([base[0], column("m")], "RENAME COLUMN n TO m, DROP price")),
        ("widened", base, rows, ([base[0], column("n", "BIGINT"), *base[2:]], "MODIFY n BIGINT")),
        ("both", base, rows, ([base[0], column("m", "BIGINT"), *base[2:]], "CHANGE n m BIGINT")),
    ):
        target = SparkTable(spark, str(folder / name))
        target.create(version(*before), ("id",))
        place = "named_struct('epoch', 0, 'file', 1L, 'pos', 5L, 'row', id, 'part', 1)"
        ours = (
            f"named_struct('position', {place}, 'op', 'c', 'committed_at', timestamp'2026-01-01')"
        )
        frame = spark.sql(f"SELECT *, {ours} AS _ingest FROM ({found})")
        frame = frame.to(target.frame().schema)
        frame.write.format("delta").mode("append").save(target.path)
        if name == "marked":
            mark_rows(target, newer(frame))
        if after is not None:
            columns, ddl = after
            new = version(*columns, ddl=f"ALTER TABLE t {ddl}")
            plan = evolution.plan(evolution.Held(target.describe().columns), new, before)
            change = Committer(1).once
            change(
                target,
                Identity("ingest/p/c/t/m", 1),
                lambda t=target, p=plan: t.change_columns(p, t.describe()),
            )
        made[name] = {
            "path": target.path,
            "now": rows_of(target.frame()),
            "before": rows_of(
                spark.read.format("delta").option("versionAsOf", 1).load(target.path)
            ),
        }
    return made


def newer(frame):
    place = F.col("_ingest.position").withField("pos", F.lit(6).cast("bigint"))
    return frame.withColumns(
        {"n": F.lit(8), "_ingest": F.col("_ingest").withField("position", place)}
    )


def mark_rows(target, changes):
    direct = DeltaRsTable(target, Path(target.path).with_name("scratch"))
    rows = changes.toArrow()
    assert Committer(1).once(
        direct,
        Identity("ingest/p/c/t/m", 1),
        lambda: mark(direct, Mirror(), rows, ("id",), always=True),
    )
    assert "deletionVectors" in direct.features()


def rows_of(frame):
    columns = [name for name in frame.columns if name != "_ingest"]
    (row,) = frame.select(*[f"`{name}`" for name in columns]).collect()
    return [{name: str(row[name]) for name in columns}]


SCRIPT = """
import json, sys
import duckdb, polars, pyarrow
from deltalake import DeltaTable, QueryBuilder
from duckdb_extensions import import_extension

def by_duckdb(path, version):
    import_extension("delta")
    session = duckdb.connect()
    session.execute("LOAD delta")
    at = "" if version is None else f", version={version}"
    return session.execute(f"SELECT * FROM delta_scan('{path}'{at})").to_arrow_table().to_pylist()

def by_datafusion(path, version):
    table = DeltaTable(path, version=version)
    found = QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
    return pyarrow.table(found).to_pylist()

readers = {
    "duckdb": by_duckdb,
    "datafusion": by_datafusion,
    "pyarrow": lambda path, version: DeltaTable(path, version=version).to_pyarrow_table().to_pylist(),
    "polars": lambda path, version: polars.scan_delta(path, version=version).collect().to_dicts(),
}
said = []
for reader, path, version in json.load(sys.stdin):
    try:
        rows = readers[reader](path, version)
        said.append([{k: str(v) for k, v in row.items() if k != "_ingest"} for row in rows])
    except Exception as failure:
        said.append(f"{type(failure).__name__}: {failure}")
print(json.dumps(said))
"""


def test_every_reader_reads_it_right_or_refuses_it_by_name(lake, packages):
    others = [reader for reader in READERS if reader != "spark"]
    asked = [(reader, name, "now", None) for reader in others for name in TABLES]
    asked += [(reader, name, "before", 1) for reader in others for name in sorted(BEFORE_DDL)]
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([(r, lake[name]["path"], at) for r, name, _, at in asked]),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(packages)},
    )
    assert process.returncode == 0, process.stderr
    answers = json.loads(process.stdout.splitlines()[-1])
    for (reader, name, when, _), answer in zip(asked, answers, strict=True):
        if when == "now" and name in REFUSED.get(reader, ()):
            assert isinstance(answer, str), f"{reader} reads {name}: {answer}"
            assert NAMED.get(name, "mapping") in answer.lower()
        else:
            assert answer == lake[name][when], f"{reader}: {name} {when}"


def test_the_readers_page_holds_this_table():
    assert table() in (ROOT / "docs" / "readers.md").read_text()


if __name__ == "__main__":
    print(table())
