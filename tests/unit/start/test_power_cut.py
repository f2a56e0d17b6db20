"""When a lake is looked through after a power cut, and what of it stays."""

import pytest

from ingest.lake.files.owner import boot_id
from ingest.lake.files.storage import LocalFiles
from ingest.model.names import checkpoint_path, lease_path
from ingest.start import power_cut
from ingest.testing.lake import pipeline_at


@pytest.fixture
def pipeline(tmp_path):
    found = pipeline_at(tmp_path / "lake")
    LocalFiles(checkpoint_path(found.lake.path)).write("offsets/0", "torn")
    return found


def look(pipeline, *, clean):
    said = []
    power_cut.look_through(pipeline, [], said.append, clean=clean)
    return said


def has_checkpoint(pipeline):
    return bool(LocalFiles(checkpoint_path(pipeline.lake.path)).names(""))


def note(pipeline):
    return LocalFiles(lease_path(pipeline.lake.path)).read("boot")


def test_a_checkpoint_from_before_a_power_cut_is_not_gone_on_with(pipeline):
    assert look(pipeline, clean=False) == []
    assert not has_checkpoint(pipeline)
    assert note(pipeline) == boot_id()


def test_one_that_was_left_in_peace_is(pipeline):
    look(pipeline, clean=True)
    assert has_checkpoint(pipeline)


def test_under_the_same_boot_nothing_is_looked_at(pipeline, monkeypatch):
    look(pipeline, clean=True)
    monkeypatch.setattr(power_cut, "take_back", lambda *_: pytest.fail("looked through"))
    assert look(pipeline, clean=False) == []
    assert has_checkpoint(pipeline)


def test_whoever_dies_in_the_middle_of_it_leaves_it_to_the_next(pipeline, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(power_cut, "take_back", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            look(pipeline, clean=False)
    assert note(pipeline) is None
    look(pipeline, clean=False)
    assert not has_checkpoint(pipeline)
