"""The tour of streaming names nothing that is not there."""

import re
from pathlib import Path

import pytest

from ingest.cli.recipe import RECIPES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
ROWS = [
    row.split(" | ") for row in PAGE.partition("\n## ")[0].splitlines() if row.startswith("| **")
]

CONCEPTS = """write-ahead log; checkpoint of metadata; checkpoint of data; reliable receiver; several receivers in parallel; block interval; back pressure; the cost of the log;
the driver's recovery; job definition; data intake; job tracking; long-running fault tolerance; hot standby; cold standby; replay; ignore; at most once; reliable and unreliable sources;
idempotent writes; transactional writes; offsets of one's own; map-only and shuffle; unbounded table; what streaming does not do; event time; tumbling and sliding windows; session windows;
watermark; several watermarks; output modes; micro-batch; once and available-now; continuous and real-time; epochs; foreachbatch; foreach; state store; arbitrary state; stream-static joins; as it was;
stream-stream joins; corrections; low-latency stores; restart from offset log; progress and listeners; sources and sinks"""


def test_every_concept_has_a_row():
    names = "\n".join(row[0].lower().replace("`", "") for row in ROWS)
    assert [one for one in re.split(r";\s+", CONCEPTS) if one not in names] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][4:40])
def test_what_a_row_names_is_there(row):
    assert len(row) == 4
    _, where, recipe, test = row
    modules = re.findall(r"`((?:ingest|bench)/[\w/]+\.py)`", where)
    assert modules or "Spark's" in where or where.startswith("not of flows")
    assert [one for one in modules if not (ROOT / one).is_file()] == []
    name = re.fullmatch(r"\[`([\w-]+)`\]\(recipes/([\w-]+)\.md\)", recipe)
    assert name[1] == name[2]
    assert name[1] in RECIPES
    file, function = re.fullmatch(r"`(tests/[\w/]+\.py)::(\w+)` \|", test).groups()
    assert f"\ndef {function}(" in (ROOT / file).read_text(encoding="utf-8")
