"""What stands in our logs is true, by a reader that knows the protocol alone, and others make the same of them."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from ingest.lake.delta import deletion_vector, file_statistics
from tests.outside import tables
from tests.outside.log import Log
from tests.outside.vectors import rows_of

APP = "ingest/p/c/d.t/mirror"


def test_the_outside_reader_imports_nothing_of_ours():
    said = "import sys, tests.outside.log; print([one for one in sys.modules if one.split('.')[0] in ('ingest', 'deltalake')])"
    done = subprocess.run(
        [sys.executable, "-c", said],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.strip() == "[]"


def as_delta_rs_has_it(path):
    table = DeltaTable(path)
    actions = pa.table(table.get_add_actions())
    rows = QueryBuilder().register("t", table).execute("SELECT count(*) AS n FROM t").read_all()
    return {
        "version": table.version(),
        "files": sorted(actions["path"].to_pylist()),
        "id": str(table.metadata().id),
        "rows": pa.table(rows)["n"][0].as_py(),
        "marker": table.transaction_version(APP),
        "features": set(table.protocol().reader_features or ()),
    }


def as_outside(path):
    log = Log.read(path)
    return {
        "version": log.version,
        "files": sorted(file for file, _ in log.files),
        "id": log.metadata["id"],
        "rows": log.live_rows(),
        "marker": log.markers.get(APP),
        "features": set(log.protocol.get("readerFeatures") or ()),
    }


@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_logs_by_delta_rs_are_true_and_others_make_the_same_of_them(tmp_path, seed, marks):
    made, lake = tables.direct(tmp_path, tables.columns(random.Random(seed)), marks=marks)
    for act in (lambda: None, made.checkpoint, lambda: tables.compacted(lake), made.checkpoint):
        act()
        assert Log.read(made.path).falsehoods() == []
        assert as_outside(made.path) == as_delta_rs_has_it(made.path)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [0],
        [2**32 - 1],
        [*range(0, 5000, 1)],
        [*range(0, 20000, 2)],
        [*range(100), 65535, 65536, 70000, *range(200_000, 300_000)],
        [one * 65536 for one in range(9)],
    ],
)
def test_a_vector_of_ours_says_its_rows_to_code_that_is_not_ours(rows):
    assert rows_of(deletion_vector.inline(rows), Path()) == set(rows)


MUTANTS = {
    "decimals as doubles": {"maxValues": 9007199254740992.0, "minValues": 0.0},
    "one bound": {"minValues": 1},
    "a bound below": {"minValues": 1, "maxValues": 2**53},
    "a wrong count of NULLs": {"nullCount": 1},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_it_tells_a_log_that_is_false(tmp_path, name):
    held = [tables.Column("c", "BIGINT UNSIGNED", "decimal(20,0)", [str(2**53 + 1)] * tables.ROWS)]
    lake = tables.DirectLake(tmp_path, {"id": pa.int64(), "c": pa.decimal128(20, 0)})
    lake.append(tables.values(held, 0))
    assert Log.read(lake.path).falsehoods() == []
    commit = lake.path / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            said = file_statistics.read(action["add"]["stats"])
            if name == "one bound":
                del said["maxValues"]["c"]
            else:
                for bound, value in MUTANTS[name].items():
                    said[bound]["c"] = value
            action["add"]["stats"] = file_statistics.written(said)
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert Log.read(lake.path).falsehoods()
