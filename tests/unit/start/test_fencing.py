"""A successor fences every app id that its predecessor may commit under: a new kind of commit cannot be forgotten."""

import ast
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ingest.lake.delta.fence_commit import fenced
from ingest.model.manifest import Entry
from ingest.model.names import (
    Marker,
    Role,
    absent_app_id,
    app_id,
    app_id_parts,
    app_ids,
    log_app_ids,
)
from ingest.model.start_facts import CheckpointFacts, LakeFacts, Note, StartFacts
from ingest.start.fencing import checkpoint_ids
from ingest.start.look_at_table import furthest

ROOT = Path(__file__).parents[3]
LAKE = {"d.t": 7, "d.bag": 3, "_ingest/manifest": 12, "_ingest/quarantine": 2}
OWN = ("_ingest/manifest", "_ingest/quarantine")


def roles(ids):
    return {app_id_parts(one)[3] for one in ids}


def test_every_role_of_a_commit_is_fenced_where_its_commits_are_made():
    found = app_ids("p", ["c1", "c2"], LAKE)
    logs = log_app_ids("p", ["c1", "c2"], "d.t")
    every = [*found.values(), logs]
    of_flows = {Role.FLOW.value, Role.LATE.value}  # by who takes over a flow's own lease
    assert {role for ids in every for role in roles(ids)} | of_flows == {one.value for one in Role}
    assert roles(logs) == {"change-log", "upkeep"}
    assert roles(found["d.t"]) == {"mirror", "upgrade"}
    assert roles(found["_ingest/manifest"]) == {"manifest", "upgrade", "upkeep"}
    assert roles(found["_ingest/quarantine"]) == {"quarantine", "mirror-absent", "upgrade"}


def test_what_a_table_s_changes_leave_in_the_quarantine_is_fenced_there_for_each_table():
    for checkpoint in ("c1", "c2"):
        for table in ("d.t", "d.bag"):
            one = absent_app_id(app_id("p", checkpoint, table, Role.MIRROR))
            assert one == f"ingest/p/{checkpoint}/{table}/mirror-absent"  # as it stands in lakes
            assert one in app_ids("p", ["c1", "c2"], LAKE)["_ingest/quarantine"]


def test_a_lake_without_a_quarantine_has_nothing_to_fence_there():
    tables = {name: version for name, version in LAKE.items() if name not in OWN}
    assert set(app_ids("p", ["c"], tables)) == set(tables)


def calls():
    for path in sorted((ROOT / "ingest").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.relative_to(ROOT).as_posix(), node


def test_no_app_id_is_made_but_from_a_role():
    """A text put together of another app id is one that nobody fences."""
    texts = (ast.JoinedStr, ast.BinOp)
    made = {
        path
        for path, node in calls()
        if isinstance(node, texts)
        and any(
            getattr(part, "attr", getattr(part, "id", "")) in ("app_id", "app")
            for part in ast.walk(node)
            if isinstance(part, (ast.Attribute, ast.Name))
        )
    }
    assert made <= {"ingest/lake/delta/commit.py"}  # what an error says


markers = st.builds(Marker, st.integers(0, 9), st.integers(0, 2**30 - 1), st.integers(0, 8191))


@given(st.dictionaries(st.text(min_size=1), st.none() | markers), st.integers(1, 9))
def test_a_fence_keeps_how_far_each_app_id_is_and_is_put_where_the_term_is_lower(held, term):
    versions = {name: -1 if one is None else one.version for name, one in held.items()}
    raised = {name: Marker.parse(version) for name, version in fenced(versions, term)}
    for name, one in held.items():
        before = one or Marker(0, 0, 0)
        assert (name in raised) == (before.term < term)
        if name in raised:
            assert (raised[name].term, raised[name].place) == (term, before.place)


def test_of_several_tables_commits_in_the_quarantine_the_furthest_one_counts():
    """Else a batch of which only that commit is there would not be seen to be torn."""
    left = {
        "ingest/p/c/d.a/mirror-absent": Marker(1, 6, 0).version,
        "ingest/p/c/d.b/mirror-absent": Marker(2, 5, 0).version,
        "ingest/other/c/d.b/mirror-absent": Marker(2, 9, 0).version,
        "somebody": 7,
    }
    for order in (left, dict(reversed(left.items()))):
        assert furthest("p", order) == {("c", "mirror-absent"): Marker(1, 6, 0)}


def facts(*lake, checkpoint=None, newest=None):
    entry = Entry(5, newest, {}, {}, {}, 0, 0, None, None, 0, None, 0.0) if newest else None
    return StartFacts(
        pipeline="p",
        shape="stateless",
        checkpoint=CheckpointFacts(checkpoint),
        newest=entry,
        history=[],
        lake=lake,
        kafka={},
        topic_of={},
    )


def test_a_torn_batch_is_fenced_under_its_own_checkpoint_too():
    """Its checkpoint may be gone by now, and the manifest may know an older one."""
    torn = LakeFacts("d.t", "/lake/d/t", 8, note=Note(6, "torn"))
    assert checkpoint_ids(facts(torn, newest="old")) == {"torn", "old"}
    assert checkpoint_ids(facts(checkpoint="new", newest="old")) == {"new", "old"}
    assert checkpoint_ids(facts()) == set()
