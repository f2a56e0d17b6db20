"""When a lake is looked through after a power cut, and what of it stays."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ingest.lake.delta import torn_versions
from ingest.lake.delta.unfinished_rewrite import UnfinishedRewrite
from ingest.lake.files.lease import LeaseLostError
from ingest.lake.files.owner import boot_id
from ingest.lake.files.storage import LocalFiles
from ingest.model.manifest import TableState
from ingest.model.names import checkpoint_path, lease_path
from ingest.model.topics import TableId
from ingest.start import power_cut
from ingest.testing.lake import pipeline_at
from tests.support.direct_lake import DirectLake
from tests.support.leases import quick_leases


@pytest.fixture
def pipeline(tmp_path):
    found = pipeline_at(tmp_path / "lake")
    LocalFiles(checkpoint_path(found.lake.path)).write("offsets/0", "torn")
    return found


def look(pipeline, refuse_lost=lambda: None):
    said = []
    power_cut.look_through(pipeline, [TableId("d", "t")], said.append, refuse_lost)
    return said


def has_checkpoint(pipeline):
    return bool(LocalFiles(checkpoint_path(pipeline.lake.path)).names(""))


def note(pipeline):
    return LocalFiles(lease_path(pipeline.lake.path)).read("boot")


def test_a_checkpoint_from_before_a_power_cut_is_not_gone_on_with(pipeline):
    assert look(pipeline) == []
    assert not has_checkpoint(pipeline)
    assert note(pipeline) == boot_id()


def test_under_the_same_boot_nothing_is_looked_at(pipeline, monkeypatch):
    look(pipeline)
    LocalFiles(checkpoint_path(pipeline.lake.path)).write("offsets/0", "whole")
    monkeypatch.setattr(power_cut, "take_back", lambda *_: pytest.fail("looked through"))
    assert look(pipeline) == []
    assert has_checkpoint(pipeline)


def test_whoever_dies_in_the_middle_of_it_leaves_it_to_the_next(pipeline, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(power_cut, "take_back", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            look(pipeline)
    assert note(pipeline) is None
    look(pipeline)
    assert not has_checkpoint(pipeline)


def table(pipeline, batches=3, name="t"):
    """A table of a job's, a batch a version."""
    made = DirectLake(Path(pipeline.lake.path) / "d", {"id": pa.int32()}, name)
    for number in range(1, batches + 1):
        made.append({"id": [number]})
    return made


def publish(pipeline, monkeypatch, batch, versions):
    """The manifest names these versions of tables, by name, at whatever path the lake had then."""
    states = {name: TableState(f"/elsewhere/{name}", at) for name, at in versions.items()}
    said = SimpleNamespace(batch_id=batch, tables=states)
    monkeypatch.setattr(power_cut, "Ledger", lambda _: SimpleNamespace(last=lambda: said))


def test_what_is_not_published_goes_by_name_wherever_the_lake_was_when_it_was_published(
    pipeline, monkeypatch
):
    made = table(pipeline)
    publish(pipeline, monkeypatch, 2, {"d.t": 2})
    assert "d/t version 3" in look(pipeline)[0]
    assert made.values("id") == {1, 2}


@pytest.mark.parametrize("name", ["_users", ".hidden", "a b", "c#d+e", "50%"])
def test_of_a_table_with_an_odd_name_what_is_not_published_goes_too(pipeline, monkeypatch, name):
    """Its folder's name has a percent sign: rows that never reached the disk would have been published."""
    made = table(pipeline)
    folder = Path(pipeline.path(TableId("d", name)))
    made.path.rename(folder)
    publish(pipeline, monkeypatch, 2, {str(TableId("d", name)): 2})
    assert f"d/{folder.name} version 3" in look(pipeline)[0]
    folder.rename(made.path)
    assert made.values("id") == {1, 2}


def test_tables_that_are_captured_no_more_are_looked_at_and_other_people_s_are_not(
    pipeline, monkeypatch
):
    ours, theirs = table(pipeline, 1, "old"), Path(pipeline.lake.path) / "d" / "theirs"
    write_deltalake(theirs, pa.table({"id": [1]}))
    publish(pipeline, monkeypatch, 0, {})
    assert len(look(pipeline)) == 1
    assert ours.count("true") == 0
    assert DeltaTable(theirs).version() == 0


def test_without_the_manifest_nobody_knows_what_tables_hold_and_nothing_is_touched(pipeline):
    made = table(pipeline)
    assert look(pipeline) == []
    assert made.count("true") == 3


def test_of_the_first_batch_there_is_no_manifest_yet(pipeline):
    made = table(pipeline, 1)
    assert len(look(pipeline)) == 1
    assert made.count("true") == 0


@pytest.mark.parametrize("left", ["", "half a li"])
def test_a_table_that_was_being_made_before_the_first_batch_goes(pipeline, left):
    """Found by a cut after each effect of a job: such a version passed for one of a later batch, whose manifest is gone."""
    log = Path(pipeline.lake.path) / "d" / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text(left)
    assert "version 0" in look(pipeline)[0]
    assert not DeltaTable.is_deltatable(str(log.parent))


def test_where_the_version_before_is_no_longer_whole_the_batch_is_left_to_be_finished(
    pipeline, monkeypatch
):
    made = table(pipeline)
    publish(pipeline, monkeypatch, 2, {"d.t": 2})
    made.compact()
    for version in (1, 2, 3):
        for file in made.files_of(version):
            file.unlink()
    assert look(pipeline) == []
    assert made.count("true") == 3


def test_a_folder_that_is_a_link_to_another_disk_stays_one(tmp_path):
    pipeline = pipeline_at(tmp_path / "lake")
    other = tmp_path / "other"
    (other / "offsets").mkdir(parents=True)
    link = tmp_path / "lake" / "_ingest" / "checkpoint"
    link.parent.mkdir(parents=True)
    link.symlink_to(other, target_is_directory=True)
    look(pipeline)
    assert link.is_symlink()
    assert list(other.iterdir()) == []


@pytest.mark.parametrize(
    ("owner", "at"),
    [
        (torn_versions, "is_whole_before"),
        (torn_versions, "take_back"),
        (UnfinishedRewrite, "end"),
        (power_cut, "_empty"),
    ],
    ids=[
        "before a table's versions go",
        "as they are to go",
        "with a rewrite",
        "before the checkpoint",
    ],
)
def test_a_job_suspended_in_the_middle_of_it_takes_back_nothing_of_its_successor_s(
    pipeline, monkeypatch, owner, at
):
    """It has read the logs, and wakes up long after: its successor's versions have the numbers of those that were torn."""
    first, second = table(pipeline, name="a"), table(pipeline)
    publish(pipeline, monkeypatch, 2, {"d.a": 2, "d.t": 2})
    checkpoint, real = LocalFiles(checkpoint_path(pipeline.lake.path)), getattr(owner, at)
    with quick_leases(pipeline.lake.path) as leases:
        mine = leases.take()

        def suspended(*args):
            monkeypatch.setattr(owner, at, real)
            look(pipeline, leases.take().refuse_lost)
            for one in (first, second):
                one.table.version()
                one.append({"id": [300]})
            checkpoint.write("offsets/7", "the successor's")
            return real(*args)

        monkeypatch.setattr(owner, at, suspended)
        with pytest.raises(LeaseLostError):
            look(pipeline, mine.refuse_lost)
    assert first.values("id") == second.values("id") == {1, 2, 300}
    assert checkpoint.read("offsets/7") == "the successor's"
