"""State of a flow's own, in Python, with timers: by Spark's transformWithState, which needs packages that nothing else does."""

import os

import pytest

from ingest.model.errors import IngestError
from ingest.recipes import silence
from tests.outside.packages import ROOT, installed
from tests.support import own_process


@pytest.mark.long
def test_who_says_nothing_for_ten_minutes_is_told_of_once(tmp_path):
    path = f"{installed('state')}{os.pathsep}{ROOT}"
    said = own_process.came_out("tests.outside.silence", str(tmp_path), PYTHONPATH=path)
    found = [tuple(one) for one in said]
    assert found == [("cellar", "12:02"), ("door", "12:08"), ("roof", "12:09")]


def test_without_the_packages_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(silence, "_has", lambda name: name != "pandas")
    with pytest.raises(IngestError, match="needs pandas, which is not installed") as refused:
        silence.refuse_without_packages()
    assert "ingest[state]" in refused.value.remedy
