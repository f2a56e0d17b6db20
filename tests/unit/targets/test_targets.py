"""`targets`: what each says of itself, and which of them a table has."""

import pytest

from ingest.batch import row_fates
from ingest.batch.row_fates import Was
from ingest.config.table_settings import Table
from ingest.model.names import TARGET_PROPERTY
from ingest.model.position import Position
from ingest.model.specification import Change, row
from ingest.schema.catalog import SchemaVersion
from ingest.schema.steps import Step
from ingest.targets import registry
from ingest.targets.append_only import AppendOnly
from ingest.targets.mirror import Mirror
from ingest.targets.multiset import Multiset
from ingest.targets.target import dead_rows, live_rows

EACH = pytest.mark.parametrize("target", registry.TARGETS, ids=lambda one: one.name)
VERSION = SchemaVersion(None, Position(0, 1, 1), "CREATE", (), ("id",), "")


def at(pos):
    return Position(0, 1, pos)


def step(**more):
    return Step(None, None, VERSION, **more)


def test_no_two_targets_share_a_name_or_a_setting():
    names = [one.name for one in registry.TARGETS]
    settings = [name for one in registry.TARGETS for name in one.settings]
    assert len({*names}) == len(names)
    assert len({*settings}) == len(settings)


def test_the_pipeline_file_knows_the_settings_of_every_target_and_their_defaults_ask_for_none():
    assert registry.SETTINGS.keys() <= Table.model_fields.keys()
    assert all(Table.model_fields[name].description for name in registry.SETTINGS)
    assert Table().of_target == {}
    for keyed, plain in ((True, "mirror"), (False, "multiset")):
        assert registry.chosen([{}], keyed=keyed).name == plain
        said = {name: Table.model_fields[name].default for name in registry.SETTINGS}
        assert registry.chosen([said], keyed=keyed).name == plain


def test_a_log_is_a_table_without_a_key_of_which_the_last_pattern_that_says_something_says_so():
    yes, no = {"append_only": True}, {"append_only": False}
    for said in ([{}, no, yes], [no, yes, {}]):
        assert registry.chosen(said, keyed=False).name == "append_only"
        assert registry.chosen(said, keyed=True).name == "mirror"
    for said in ([{}, yes, no], [yes, no, {}]):
        assert registry.chosen(said, keyed=False).name == "multiset"


def test_versions_that_noted_no_log_made_one_of_a_table_by_any_pattern():
    yes, no = {"append_only": True}, {"append_only": False}
    assert registry.of_before([yes, no], keyed=False).name == "append_only"
    assert registry.of_before([yes, no], keyed=True).name == "mirror"
    assert registry.of_before([no, {}], keyed=False).name == "multiset"


@EACH
def test_a_table_is_known_again_for_what_it_was_written_as(target):
    known = registry.noted(registry.note(target), keyed=target.keyed)
    assert known.name == target.name
    assert bool(registry.note(target)) is not target.default, "a plain one says nothing"


def test_a_table_of_before_there_was_a_note_is_the_plain_one():
    assert registry.noted({}, keyed=True).name == "mirror"
    assert registry.noted({"ingest.key": "[]"}, keyed=False).name == "multiset"
    assert registry.noted({TARGET_PROPERTY: "mirror"}, keyed=True).name == "mirror"


def test_a_note_from_before_a_table_lost_its_key_says_nothing():
    for target in registry.TARGETS:
        noted = registry.noted({TARGET_PROPERTY: target.name}, keyed=not target.keyed)
        assert noted.default
        assert noted.keyed != target.keyed


@EACH
def test_every_clause_of_a_merge_by_key_is_guarded_by_the_order(target):
    if target.keyed:
        plan = target.plan(["id", "v"], ["id"], lambda name: name)
        guard = "s._ingest.position > t._ingest.position"
        assert all(guard in clause for clause in (plan.delete_when, plan.update_when) if clause)
        assert plan.match == "t.id = s.id"
        assert plan.assignments.keys() == {"id", "v", "_ingest"}


@EACH
def test_rows_either_count_or_do_not(target):
    dead = dead_rows(target)
    assert live_rows(target) == (f"NOT ({dead})" if dead else "true")
    assert bool(dead) == bool(target.dead)
    assert not target.dead & target.removing


def test_a_log_holds_what_was_inserted_whatever_became_of_it():
    one = row(id=1)
    changes = [
        Change("read", at(5), None, None, one),
        Change("insert", at(10), None, None, one),
        Change("delete", at(20), None, one, None),
        Change("truncate", at(30)),
        Change("insert", at(40), None, None, row(id=2)),
    ]
    assert AppendOnly().holds([*changes, *changes[1:3]]).live == {one: 2, row(id=2): 1}
    assert Multiset().holds(changes).live == {row(id=2): 1}


def test_a_truncate_removes_what_is_older_but_from_a_log():
    older = "_ingest.position < " + at(30).sql()
    wiped = step(wipe=at(30))
    for target in (Mirror(), Multiset()):
        fate = row_fates.before(wiped, target, (), None)
        assert (fate.where, fate.marks) == (older, {})
    assert row_fates.before(wiped, AppendOnly(), (), None) is None


def test_of_a_step_that_a_later_one_makes_void_only_its_reset_counts():
    fate = row_fates.before(
        step(wipe=at(30), reset=at(20), void=True), Multiset(), (), Was(Multiset(), ())
    )
    assert fate.where == f"(_ingest.position <= {at(20).sql()})"
    assert row_fates.before(step(wipe=at(30), void=True), Mirror(), ("id",), None) is None


def test_what_was_always_kept_alike_loses_nothing_by_another_key_or_none():
    assert row_fates.before(step(), Mirror(), ("id",), Was(Mirror(), ("other",))) is None
    assert row_fates.before(step(), Mirror(), ("id",), Was(Multiset(), ())) is None


def test_rows_that_a_snapshot_did_not_find_are_removed():
    older = "_ingest.position < " + at(30).sql()
    for target, key in ((Mirror(), ("id",)), (Multiset(), ()), (AppendOnly(), ())):
        (fate,) = row_fates.not_found(Was(target, key), at(30))
        assert (fate.where, fate.marks) == (older, {})


def test_steps_before_a_truncate_are_void_where_it_leaves_nothing():
    cut = [
        Step(None, at(30), VERSION),
        Step(at(30), at(60), VERSION, wipe=at(30), number=1),
        Step(at(60), None, VERSION, wipe=at(60), number=2),
    ]
    kept = row_fates.without_void(cut, Mirror())
    assert [(one.number, one.void) for one in kept] == [(0, True), (2, False)]
    log = row_fates.without_void(cut, AppendOnly())
    assert [(one.number, one.wipe, one.void) for one in log] == [
        (0, None, False),
        (1, None, False),
        (2, None, False),
    ]
