"""A lake is one pipeline's, and says so; whose one is that an earlier version has filled, what it holds tells."""

import json
import shutil
from dataclasses import replace

import pytest

from ingest.lake import ownership
from ingest.lake.files.storage import LocalFiles
from ingest.lake.manifest import next_entry
from ingest.lake.ownership import claim, refuse_other
from ingest.model.errors import IngestError
from ingest.model.names import (
    IDENTITY_FILE,
    REPLACED_FILE,
    checkpoint_path,
    manifest_path,
    owner_path,
)
from ingest.model.topics import TableId
from ingest.testing.lake import pipeline_at
from tests.support.small_lake import SmallLake
from tests.support.untouched import everything

IDENTITY = "p\nabc\nstateless\n"
SOURCE = {"mysql": "mysql://u@h", "password": {"env": "X"}, "tables": ["*.*"]}


def noted(lake):
    text = LocalFiles(owner_path(str(lake))).read("pipeline.json")
    return None if text is None else json.loads(text)["pipeline"]


def is_refused(lake, name):
    """And nothing of it is touched, whichever way it is asked."""
    before = everything(lake)
    for asks in (refuse_other, claim):
        with pytest.raises(
            IngestError, match=f"E-START-REFUSED.*belongs to the pipeline .*{name!r}"
        ):
            asks(pipeline_at(lake, name))
    assert everything(lake) == before


@pytest.fixture
def lake(tmp_path):
    """Of pipeline `p`, as an earlier version has filled it: a manifest, two tables, and nothing that names a pipeline."""
    made = SmallLake(tmp_path / "lake")
    made.batch({"a": 2, "b": 2})
    return made


def test_an_empty_lake_is_whose_first_run_it_is_and_nobody_else_s_from_then_on(tmp_path):
    lake = tmp_path / "lake"
    refuse_other(pipeline_at(lake, "p"))
    assert not lake.exists(), "to ask writes nothing"
    claim(pipeline_at(lake, "p"))
    assert noted(lake) == "p"
    before = everything(lake)
    claim(pipeline_at(lake, "p"))
    assert everything(lake) == before
    is_refused(lake, "q")


def test_what_ingest_keeps_beside_tables_makes_no_lake_somebody_s(tmp_path):
    """The lease is there before it is noted; a run that ended early has left epochs."""
    LocalFiles(str(tmp_path)).write("_ingest/lease/1.json", "{}")
    LocalFiles(str(tmp_path)).write("_ingest/epochs/0.json", "{}")
    claim(pipeline_at(tmp_path))
    assert noted(tmp_path) == "p"


@pytest.mark.parametrize(
    "settings", [{}, {"topic_names": "escaped"}], ids=["as it was", "escaped since"]
)
def test_of_an_earlier_version_s_lake_the_topics_of_its_manifest_tell(lake, settings):
    is_refused(lake.root, "q")
    is_refused(lake.root, "p2")
    claim(pipeline_at(lake.root, source=SOURCE | settings))
    assert noted(lake.root) == "p"
    is_refused(lake.root, "q")


@pytest.mark.parametrize("names", ["plain", "escaped"])
def test_a_name_is_found_in_its_topics_however_they_are_called(names):
    topics = {"plain": ["my_p.d.a"], "escaped": ["my_u005fp.d.a"]}[names]
    assert ownership.by_topics("my_p", topics) == "my_p"
    assert ownership.by_topics("my", topics) not in (None, "my")
    assert ownership.by_topics("my_p", []) is None


@pytest.mark.parametrize(
    ("file", "text"), [(IDENTITY_FILE, IDENTITY), (REPLACED_FILE, "p\n")], ids=["whole", "replaced"]
)
def test_its_checkpoint_tells_before_its_topics(lake, file, text):
    shutil.rmtree(manifest_path(str(lake.root)))
    LocalFiles(checkpoint_path(str(lake.root))).write(file, text)
    is_refused(lake.root, "q")
    claim(lake.pipeline)
    assert noted(lake.root) == "p"


@pytest.mark.parametrize("left", [b"", b"p\nabc", bytes(20), b"p\n\xff\xfe\nstateless"])
def test_a_checkpoint_that_a_power_cut_has_torn_tells_nothing_and_the_topics_do(lake, left):
    checkpoint = lake.root / "_ingest" / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / IDENTITY_FILE).write_bytes(left)
    is_refused(lake.root, "q")
    claim(lake.pipeline)
    assert noted(lake.root) == "p"


def nothing_tells(lake):
    """Neither is anybody refused, nor is the lake anybody's before something does."""
    before = everything(lake.root)
    for name in ("p", "q"):
        claim(pipeline_at(lake.root, name))
    assert everything(lake.root) == before


def test_tables_without_their_manifest_are_nobody_s_before_it_is_back(lake):
    copy = lake.copy("_ingest/manifest")
    shutil.rmtree(lake.root / "_ingest")
    nothing_tells(lake)
    shutil.copytree(copy, lake.root / "_ingest" / "manifest")
    is_refused(lake.root, "q")
    claim(lake.pipeline)
    assert noted(lake.root) == "p"


def test_a_manifest_that_a_power_cut_has_torn_refuses_nobody_before_it_is_mended(lake):
    log = lake.root / "_ingest" / "manifest" / "_delta_log"
    for file in log.glob("*.json"):
        file.write_bytes(b"")
    nothing_tells(lake)


def test_a_manifest_without_a_topic_refuses_nobody(tmp_path):
    lake = SmallLake(tmp_path / "lake")
    lake.publish(replace(next_entry.before_the_first("abc"), batch_id=1))
    refuse_other(pipeline_at(lake.root, "q"))
    claim(lake.pipeline)
    assert noted(lake.root) == "p"


def test_a_copy_at_another_path_is_the_same_pipeline_s_and_no_other_one_s(lake, tmp_path):
    claim(lake.pipeline)
    copy = tmp_path / "elsewhere"
    shutil.copytree(lake.root, copy)
    claim(pipeline_at(copy))
    is_refused(copy, "q")


def test_an_older_copy_of_what_ingest_keeps_there_is_gone_on_with(lake):
    """Of before the lake said whose it is."""
    copy = lake.copy("_ingest/manifest")
    claim(lake.pipeline)
    shutil.rmtree(lake.root / "_ingest")
    shutil.copytree(copy, lake.root / "_ingest" / "manifest")
    is_refused(lake.root, "q")
    claim(lake.pipeline)
    assert noted(lake.root) == "p"


def test_who_notes_it_between_the_look_and_the_note_has_it(tmp_path, monkeypatch):
    def just_now(_):
        LocalFiles(owner_path(str(tmp_path))).create("pipeline.json", '{"pipeline": "q"}')
        return True

    monkeypatch.setattr(ownership, "_is_empty", just_now)
    with pytest.raises(IngestError, match="belongs to the pipeline 'q'"):
        claim(pipeline_at(tmp_path))


def named(lake, names):
    return pipeline_at(lake, source=SOURCE | {"topic_names": names})


@pytest.mark.parametrize(("was", "now"), [("plain", "escaped"), ("escaped", "plain")])
def test_topics_that_were_read_are_not_called_otherwise_from_then_on(tmp_path, was, now):
    claim(named(tmp_path, was))
    before = everything(tmp_path)
    for asks in (refuse_other, claim):
        with pytest.raises(IngestError, match=f"E-TOPIC-NAMES.*kind '{was}'.*topic_names: {now}"):
            asks(named(tmp_path, now))
    assert everything(tmp_path) == before
    claim(named(tmp_path, was))


def test_of_an_earlier_version_s_lake_a_table_s_topic_tells_how_they_are_called(tmp_path):
    lake = SmallLake(tmp_path / "lake")
    lake.batch({"a": 2, "order_items": 2})
    with pytest.raises(IngestError, match="E-TOPIC-NAMES"):
        claim(named(lake.root, "escaped"))
    assert noted(lake.root) is None
    claim(named(lake.root, "plain"))
    assert noted(lake.root) == "p"


def test_a_topic_that_both_ways_have_tells_nothing():
    both = [TableId("d", "a"), TableId("d", "b_c")]

    def told(topics, wanted="plain", tables=both):
        return ownership.topic_names("p", tables, topics, wanted)

    assert told(["p.d.a"], tables=[TableId("d", "a")]) is None
    assert told(["p.d.a"]) is None
    for wanted in ("plain", "escaped"):
        assert told(["p.d.a", "p.d.b_c"], wanted) == "plain"
        assert told(["p.d.a", "p.d.b_u005fc"], wanted) == "escaped"
    assert told(["p.d.b_c", "p.d.b_u005fc"]) is None


def test_a_lake_that_has_changed_them_before_goes_on_as_it_is_named_now():
    """As it was once advised: the manifest goes on naming the topics of before, of a quiet table no others."""
    tables = [TableId("d", "a_quiet"), TableId("d", "b_busy")]
    topics = ["p.d.a_quiet", "p.d.b_busy", "p.d.b_u005fbusy", "p.d.c_u005fnew"]
    new = TableId("d", "c_new")
    assert ownership.topic_names("p", [*tables, new], topics, "escaped") == "escaped"
