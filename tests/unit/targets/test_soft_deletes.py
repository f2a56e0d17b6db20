"""`deletes: soft`: what it says of itself, and its MERGE by delta-rs against a dictionary."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from ingest.arrow import winning_rows
from ingest.batch import row_fates
from ingest.batch.row_fates import Was
from ingest.cli.plans import plan_table
from ingest.config import pipeline_file
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.delta_sql import queried
from ingest.lake.engines import copy_on_write, merge_on_read
from ingest.model.manifest import TableState
from ingest.model.names import Marker
from ingest.model.position import Position
from ingest.model.specification import Change, row
from ingest.model.topics import TableId
from ingest.observe.held_tables import held as read_off
from ingest.observe.lake_plan import HeldTable, effects, of_targets
from ingest.observe.pipeline_plan import PipelinePlan, _key
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.steps import Step
from ingest.source.connector import Plan
from ingest.targets.append_only import AppendOnly
from ingest.targets.mirror import Mirror
from ingest.targets.multiset import Multiset
from ingest.targets.soft_deletes import SoftDeletes
from ingest.targets.target import live_rows
from tests.support.direct_lake import META
from tests.support.mutants import Mutant
from tests.unit.config.test_pipeline_file import GOOD
from tests.unit.observe.test_lake_plan import HELD, ID, V, record

SOFT, HARD = SoftDeletes(), Mirror()
LOG = AppendOnly()
VERSION = SchemaVersion(TableId("d", "t"), Position(0, 1, 1), "CREATE", (), ("id",), "")
ORDERS = TableId("shop", "orders")


def at(pos):
    return Position(0, 1, pos)


def step(**more):
    return Step(None, None, VERSION, **more)


def test_the_last_pattern_that_says_something_counts():
    file = pipeline_file.parse(
        GOOD
        + 'tables: {"shop.*": {deletes: soft}, "shop.o*": {ddl: pause}, shop.x: {deletes: hard}}'
    )
    assert file.target(ORDERS, keyed=True).name == "soft_deletes"
    assert file.target(TableId("shop", "x"), keyed=True).name == "mirror"
    assert file.target(TableId("other", "x"), keyed=True).name == "mirror"


def test_without_a_key_it_is_refused_with_what_to_do_and_never_taken_for_it():
    file = pipeline_file.parse(GOOD + 'tables: {"shop.*": {deletes: soft}}')
    assert file.unfit(ORDERS, keyed=True) is None
    unfit = file.unfit(ORDERS, keyed=False)
    assert "needs a key" in unfit.why
    assert "deletes: hard" in unfit.remedy
    assert file.target(ORDERS, keyed=False).name == "multiset"


def test_a_row_that_is_deleted_is_kept_with_its_last_image_until_it_is_inserted_again():
    one, key = row(id=1, v="a"), row(id=1)
    log = [
        Change("insert", at(10), key, None, one),
        Change("delete", at(20), key, one, None),
        Change("truncate", at(30)),
    ]
    assert SOFT.holds(log).kept == {key: (one, at(20))}
    assert SOFT.holds([log[0], log[2]]).kept == {key: (one, at(30))}
    again = Change("insert", at(40), key, None, row(id=1, v="b"))
    found = SOFT.holds([*log, again, *log])
    assert (found.live, found.kept) == (Counter({row(id=1, v="b"): 1}), {})


def test_a_truncate_marks_live_rows_where_it_stands_and_leaves_those_that_are_dead():
    fate = row_fates.before(step(wipe=at(30)), SOFT, ("id",), None)
    assert fate.where == f"_ingest.position < {at(30).sql()} AND NOT (_ingest['op'] = 'd')"
    assert fate.marks["`_ingest`.position"] == at(30).sql()
    assert fate.marks["`_ingest`.op"] == "'d'"
    assert SOFT.not_found(at(30)) == SOFT.truncated(at(30))


def test_rows_that_a_snapshot_did_not_find_are_marked_but_those_that_have_lost_their_key_go():
    lost, marked = row_fates.not_found(Was(SOFT, ("id", "k")), at(30))
    assert lost.where == f"_ingest.position < {at(30).sql()} AND (`id` IS NULL OR `k` IS NULL)"
    assert not lost.marks
    assert marked == SOFT.truncated(at(30))


def test_a_batch_with_a_truncate_applies_also_what_came_before_it():
    cut = [Step(None, at(30), VERSION), Step(at(30), None, VERSION, wipe=at(30), number=1)]
    assert row_fates.without_void(cut, SOFT) == cut


def test_dead_rows_go_with_their_target_and_with_their_key():
    dead = "(_ingest['op'] IN ('d'))"
    to_hard = row_fates.before(step(), HARD, ("id",), Was(SOFT, ("id",)))
    assert (to_hard.where, to_hard.marks) == (dead, {})
    rekeyed = row_fates.before(step(), SOFT, ("code",), Was(SOFT, ("id",)))
    assert (rekeyed.where, rekeyed.marks) == (dead, {})
    both = row_fates.before(step(wipe=at(9)), SOFT, ("code",), Was(SOFT, ("id",)))
    assert both.where.startswith(f"{dead} OR (_ingest.position < ")
    assert not both.marks
    assert row_fates.before(step(), SOFT, ("id",), Was(SOFT, ("id",))) is None
    assert row_fates.before(step(), SOFT, ("id",), None) is None


def test_where_it_begins_no_row_that_is_there_is_dead():
    for was in (Was(HARD, ("id",)), Was(Multiset(), ())):
        fate = row_fates.before(step(), SOFT, ("id",), was)
        assert (fate.where, fate.marks) == ("_ingest['op'] IN ('d')", {"_ingest.op": "'u'"})


@pytest.mark.parametrize(
    ("was", "wanted", "costs", "said"),
    [
        (HARD, SOFT, ("metadata",), "keeps deleted rows from now on"),
        (SOFT, HARD, ("rows go",), "go before its next change"),
        (SOFT, SOFT, None, ""),
        (HARD, HARD, None, ""),
        (Multiset(), LOG, ("metadata",), "keeps rows from now on that the source deletes"),
        (LOG, Multiset(), ("metadata",), "stay until `ingest resync`"),
        (LOG, LOG, None, ""),
    ],
)
def test_the_plan_says_what_another_setting_does(was, wanted, costs, said):
    held = {"shop.orders": HeldTable({}, False, 1, 1, target=was)}
    found = of_targets(held, lambda table: wanted, lambda table: None)
    assert [one.costs for one in found] == ([costs] if costs else [])
    assert all(said in one.sentence for one in found)


def test_the_plan_says_that_dead_rows_go_with_their_key():
    rekeyed = record(20, "ALTER", [ID, V], "ALTER TABLE t DROP PRIMARY KEY", key=("v",))
    catalog = Catalog()
    for one in (record(5, "CREATE", [ID, V]), rekeyed):
        catalog.add(one, 0)
    state = TableState("/lake/d/t", 3, position=at(10))
    for target, costs in ((SOFT, ("metadata", "rows go")), (HARD, ("metadata",))):
        (effect,) = effects(catalog, {"d.t": state}, {"d.t": replace(HELD, target=target)})
        assert effect.costs == costs
        assert (SOFT.ends in effect.sentence) == bool(target.dead)


def test_the_plan_names_what_is_not_simply_mirrored():
    plan = PipelinePlan(Plan("nothing", ()), (), {}, {"shop.orders": "soft_deletes"})
    said = [str(part) for part in plan_table(plan).renderables]
    assert "target     shop.orders: soft_deletes" in said
    assert plan.as_json()["targets"] == {"shop.orders": "soft_deletes"}


def test_the_plan_reads_off_a_table_what_it_is_kept_as_and_its_key(tmp_path):
    said = {"ingest.key": '["id"]', "ingest.target": "soft_deletes"}
    DeltaTable.create(
        tmp_path, Schema.from_arrow(_SCHEMA), configuration=said, raise_if_key_not_exists=False
    )
    held = read_off(str(tmp_path))
    assert (held.target.name, held.key, held.multiset) == ("soft_deletes", ("id",), False)
    catalog = Catalog()
    assert _key(catalog, "d.t", held) == (
        "id",
    )  # a unique key, which Debezium takes for the primary key
    catalog.add(record(5, "CREATE", [ID, V]), 0)
    assert _key(catalog, "d.t", held) == ("id",)
    catalog.add(record(20, "ALTER", [ID, V], "ALTER TABLE t DROP PRIMARY KEY", key=()), 0)
    assert _key(catalog, "d.t", held) == ()


def test_the_plan_refuses_what_a_table_cannot_be():
    held = {"shop.orders": HeldTable({}, True, 1, 1, target=Multiset())}
    unfit = SOFT.unfit([{"deletes": "soft"}], keyed=False)
    (effect,) = of_targets(held, lambda table: Multiset(), lambda table: unfit)
    assert effect.costs == ("refused",)
    assert unfit.remedy in effect.sentence


# --- the MERGE itself, by delta-rs, in both its ways ---------------------------------------------

_SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string()), ("_ingest", META)])

operations = st.tuples(st.sampled_from(["put", "put", "remove"]), st.integers(0, 3))


def logged(drawn):
    """What a log says that begins in the middle of a table's life: rows may go that it never brought. The truth beside
    it: live rows, and the places of deletes.
    """
    log, live, dead = [], {}, {}
    unseen = {0, 1}
    for pos, (kind, key) in enumerate(drawn, 10):
        if kind == "put":
            unseen.discard(key)
            log.append((key, f"v{pos}", "u" if key in live else "c", pos))
            live[key] = f"v{pos}"
            dead.pop(key, None)
        elif key in live or key in unseen:
            unseen.discard(key)
            log.append((key, live.pop(key, "before"), "d", pos))
            dead[key] = pos
    return log, live, dead


class Lake:
    """One table, written as the driver writes it, with no guard but the rows' own."""

    def __init__(self, folder, target, *, marks):
        self.target, self.marks, self.batch = target, marks, 0
        self.path = Path(folder) / f"{target.name}-{marks}"
        self.path.mkdir()
        DeltaTable.create(self.path, Schema.from_arrow(_SCHEMA))
        slow = SimpleNamespace(path=str(self.path), folder=self.path)
        self.table = DeltaRsTable(slow, Path(folder) / "scratch")

    def apply(self, changes):
        meta = [
            {"position": {"epoch": 0, "file": 1, "pos": pos, "row": 0, "part": int(op != "d")}, "op": op}
            for _, _, op, pos in changes
        ]  # fmt: skip
        rows = pa.table(
            [[key for key, *_ in changes], [v for _, v, *_ in changes], meta], schema=_SCHEMA
        )
        winners = winning_rows.winners(rows, ("id",))
        self.batch += 1
        self.table.version()
        with self.table.identified("ingest/p/c/d.t/mirror", Marker(1, self.batch, 0).version, ""):
            if self.marks:
                assert merge_on_read.mark(self.table, self.target, winners, ("id",), always=True)
            else:
                copy_on_write.rewrite(self.table, self.target, winners, ("id",), ("id",))

    def live(self):
        return self._rows(live_rows(self.target))

    def _rows(self, where):
        found = queried(DeltaTable(self.path), f"SELECT id, v FROM rows WHERE {where}")
        assert len({one["id"] for one in found}) == len(found)
        return {one["id"]: one["v"] for one in found}

    def dead(self):
        sql = "SELECT id, _ingest['position']['pos'] AS pos FROM rows WHERE _ingest['op'] = 'd'"
        return {one["id"]: one["pos"] for one in queried(DeltaTable(self.path), sql)}


def split(log, cuts):
    ends = sorted({min(cut, len(log)) for cut in cuts} | {len(log)})
    starts = [0, *ends]
    return [log[start:end] for start, end in zip(starts, ends, strict=False) if end > start]


LAW = settings(
    max_examples=12,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
)


@LAW
@example([("remove", 0)], [], [], [])
@example([("put", 0), ("put", 2), ("remove", 1)], [2], [2], [])
@example([("put", 0), ("put", 0), ("remove", 0)], [1], [1], [(0, 2)])
@given(
    drawn=st.lists(operations, min_size=1, max_size=14),
    cuts=st.lists(st.integers(1, 14), max_size=3),
    other=st.lists(st.integers(1, 14), max_size=3),
    again=st.lists(st.tuples(st.integers(0, 13), st.integers(1, 4)), max_size=2),
)
def agree(marks, drawn, cuts, other, again):
    log, live, dead = logged(drawn)
    if not log:
        return
    with TemporaryDirectory() as folder:
        hard = Lake(folder, HARD, marks=marks)
        for batch in split(log, cuts):
            hard.apply(batch)
        soft = Lake(folder, SOFT, marks=marks)
        batches, seen = split(log, other), 0
        for batch in batches:
            soft.apply(batch)
            seen += len(batch)
            for start, size in again:  # of what was sent so far, and nothing but the rows says so
                if log[:seen][start : start + size]:
                    soft.apply(log[:seen][start : start + size])
        assert soft.live() == hard.live() == live
        assert soft.dead() == dead


@pytest.mark.parametrize("marks", [False, True], ids=["copy-on-write", "deletion vectors"])
def test_what_is_live_is_what_a_mirror_holds_however_it_is_split_and_sent_again(marks):
    agree(marks=marks)


def _anywhere(original):
    return lambda rows, held, removing: original(
        rows, [replace(one, position=()) for one in held], removing
    )


def _plan(**changed):
    return lambda original: lambda *given: replace(original(*given), **changed)


def _removes(_):
    return frozenset("d")


NOT_KEPT = _plan(insert_when="s._ingest.op <> 'd'")
MUTANTS = [
    (False, Mutant("a change applies over a newer row", SoftDeletes, "plan", _plan(update_when="true"), agree)),
    (False, Mutant("a delete of an absent row is not kept", SoftDeletes, "plan", NOT_KEPT, agree)),
    (False, Mutant("nor where no file may hold its key", SoftDeletes, "removing", _removes, agree)),
    (True, Mutant("a delete marks its row and adds none", SoftDeletes, "removing", _removes, agree)),
    (True, Mutant("rows are marked whatever their own position", merge_on_read, "_decide", _anywhere, agree)),
]  # fmt: skip


@pytest.mark.parametrize(("marks", "mutant"), MUTANTS, ids=[one.what for _, one in MUTANTS])
def test_each_mutant_is_killed_by_the_law(marks, mutant):
    with mutant.in_place(), pytest.raises(AssertionError):
        mutant.killed_by(marks=marks)
