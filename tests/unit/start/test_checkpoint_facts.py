"""Where a checkpoint would go on, from Spark's own files."""

import json

import pytest

from ingest.lake.files.storage import LocalFiles
from ingest.model.names import IDENTITY_FILE
from ingest.start.gather_facts import checkpoint_facts

PLACE = ("p.d.t", 0)


def offsets(end):
    return json.dumps({"p.d.t": {"0": end}})


@pytest.fixture
def checkpoint(tmp_path):
    files = LocalFiles(str(tmp_path))
    files.write(IDENTITY_FILE, "p\nabc\nstateless\n")
    files.write("metadata", '{"id": "x"}')
    files.write("sources/0/0", f"v1\n{offsets(3)}")
    return files


def log(files, *ends, over):
    for number, end in enumerate(ends):
        files.write(f"offsets/{number}", f"v1\n{{}}\n{offsets(end)}")
    for number in range(over):
        files.write(f"commits/{number}", "v1\n{}")


@pytest.mark.parametrize(
    ("ends", "over", "begins"),
    [((5,), 0, 3), ((5,), 1, 5), ((5, 8), 1, 5), ((5, 8), 2, 8)],
    ids=["its first batch", "behind it", "the second", "behind that"],
)
def test_it_begins_with_its_newest_batch_unless_that_is_over(checkpoint, ends, over, begins):
    log(checkpoint, *ends, over=over)
    found = checkpoint_facts(checkpoint)
    assert (found.problem, found.ends) == ("", {PLACE: ends[-1]})
    assert found.begins == {PLACE: begins}


def test_one_that_has_begun_nothing_begins_anywhere(checkpoint):
    assert (checkpoint_facts(checkpoint).begins, checkpoint_facts(checkpoint).ends) == (None, None)
