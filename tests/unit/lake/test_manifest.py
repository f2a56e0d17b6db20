"""The manifest on a disk: what a job publishes is what a reader finds, then and later."""

import json
import tarfile
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.files.storage import LocalFiles
from ingest.lake.manifest import part_rows
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.lake.manifest.manifest_writer import Publisher
from ingest.local import tar
from ingest.maintenance.schedule import Maintenance
from ingest.model import manifest
from ingest.model.errors import IngestError
from ingest.model.names import Role, app_id, manifest_path, upgrade_path
from ingest.model.start_facts import Foreign, LakeFacts
from ingest.schema.delta_types import fields_json
from ingest.start import gather_facts, lake_format
from ingest.start.lake_format import LABELS, refuse_other
from tests.support.ledgers import following, history

DATA = Path(__file__).parents[2] / "data"


class Job:
    """Publishes as a job does, without Spark."""

    def __init__(self, lake, term=1):
        self.lake, self.committer = str(lake), Committer(term)
        self.publisher = Publisher(None, self.lake, self.committer)
        self.upkeep = Maintenance(self.lake, 1, 10_000, self.committer, "p")

    def publish(self, *entries):
        for entry in entries:
            app = app_id("p", "c", "_ingest", Role.MANIFEST)
            self.publisher.add(entry, Identity(app, entry.batch_id))

    def keep_up(self):
        self.upkeep.between_batches(self.publisher.opened)


@pytest.fixture(autouse=True)
def few_rows_make_a_whole(monkeypatch):
    monkeypatch.setattr(part_rows, "EVERY", 4)


def rows(lake):
    table = DeltaTable(manifest_path(str(lake)))
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda one: one["batch_id"])


def of_today_s_form(lake, entries):
    """As the version before wrote it: no row is a part, and there are no columns for it."""
    text = fields_json(manifest.FIRST_SCHEMA)
    path = manifest_path(str(lake))
    DeltaTable.create(path, Schema.from_json(json.dumps(text)))
    schema = to_arrow_schema(StructType.fromJson(text), timezone="UTC")
    for entry in entries:
        write_deltalake(path, pa.Table.from_pylist([entry.as_row()], schema), mode="append")


def agrees(ledger, entries):
    """Newest and history below any number."""
    newest_first = entries[::-1]
    assert ledger.entries(1_000) == newest_first
    assert ledger.last() == entries[-1]
    assert ledger.total_changes() == sum(one.changes for one in entries)
    for at in range(0, len(entries), 7):
        below = entries[at].batch_id
        found = ledger.entries(5, below=below)
        assert found == [one for one in newest_first if one.batch_id < below][:5]


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_finds_what_was_published_whoever_wrote_it_and_however_long_it_has_looked(
    tmp_path, seed
):
    draw = Random(seed)
    entries = aged([replace(one, term=1) for one in history(draw, 40)], 0)
    of_today_s_form(tmp_path, entries[:9])
    following_it = Ledger(str(tmp_path))
    agrees(following_it, entries[:9])
    job = Job(tmp_path)
    for at in range(9, 40):
        if draw.random() < 0.1:
            job = Job(tmp_path, job.committer.term + 1)
        entries[at] = replace(entries[at], term=job.committer.term)
        job.publish(entries[at])
        if draw.random() < 0.3:
            job.keep_up()
        if draw.random() < 0.5:
            assert following_it.last() == entries[at]
    agrees(following_it, entries)
    agrees(Ledger(str(tmp_path)), entries)
    assert any(one["base"] for one in rows(tmp_path))
    assert any(one["base"] is None for one in rows(tmp_path)[10:])


def test_a_start_reads_a_bounded_part_of_it(tmp_path):
    entries = [replace(one, term=1) for one in history(Random(5), 30)]
    Job(tmp_path).publish(*entries)
    read = list[int]()
    took = part_rows.Fold.take

    def noted(fold, row):
        read.append(row["batch_id"])
        took(fold, row)

    with patch.object(part_rows.Fold, "take", noted):
        assert Ledger(str(tmp_path)).last() == entries[-1]
    assert len(read) <= part_rows.EVERY


def test_a_reader_that_follows_reads_only_what_is_new(tmp_path):
    job, entries = Job(tmp_path), [replace(one, term=1) for one in history(Random(5), 12)]
    job.publish(*entries[:10])
    ledger, read = Ledger(str(tmp_path)), list[int]()
    ledger.last()
    job.publish(*entries[10:])
    took = part_rows.Fold.take
    with patch.object(
        part_rows.Fold, "take", lambda fold, row: (read.append(row["batch_id"]), took(fold, row))
    ):
        assert ledger.last() == entries[11]
        assert ledger.last() == entries[11]
    assert read == [one.batch_id for one in entries[10:]]


def test_after_a_commit_of_which_nobody_knows_the_next_row_is_whole(tmp_path, monkeypatch):
    job, entries = (
        Job(tmp_path),
        [replace(one, term=1, kind="batch") for one in history(Random(5), 6)],
    )
    job.publish(*entries[:2])
    with monkeypatch.context() as patched:
        patched.setattr(Committer, "_keep", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            job.publish(entries[2])  # it is there, but may not last
    job.publish(entries[2])
    job.publish(*entries[3:])
    assert [one["batch_id"] for one in rows(tmp_path)] == [one.batch_id for one in entries]
    assert rows(tmp_path)[3]["base"] is None
    agrees(Ledger(str(tmp_path)), entries)


def test_rows_that_somebody_removed_from_under_the_newest_stop_a_start_in_a_sentence(tmp_path):
    entries = [replace(one, term=1, kind="batch", gaps=()) for one in history(Random(1), 9)]
    Job(tmp_path).publish(*entries)
    newest = rows(tmp_path)[-1]
    assert newest["base"], "a part, or this shows nothing"
    DeltaTable(manifest_path(str(tmp_path))).delete(f"batch_id = {newest['base']}")
    with pytest.raises(IngestError, match="E-MANIFEST-BROKEN"):
        Ledger(str(tmp_path)).last()


def test_a_manifest_that_was_restored_and_gone_on_with_is_read_anew(tmp_path):
    draw = Random(3)
    entries = [replace(one, term=1, kind="batch") for one in history(draw, 8)]
    Job(tmp_path).publish(*entries)
    ledger = Ledger(str(tmp_path))
    assert ledger.last() == entries[-1]
    DeltaTable(manifest_path(str(tmp_path))).restore(len(entries) - 2)
    others = [following(draw, entries[-3])]
    while others[-1].batch_id <= entries[-1].batch_id:
        others.append(following(draw, others[-1]))
    others = [replace(one, term=2) for one in others]
    Job(tmp_path, 2).publish(*others)
    assert ledger.last() == others[-1] == Ledger(str(tmp_path)).last()


class TestOldRows:
    @pytest.fixture
    def entries(self):
        return aged([replace(one, term=1, kind="batch") for one in history(Random(2), 30)], 20)

    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch):
        """No compaction, which would put old and young together in these few rows."""
        monkeypatch.setattr(Maintenance, "_compact", lambda *_: False)

    def test_go_but_for_those_that_a_restore_can_need(self, tmp_path, entries):
        job = Job(tmp_path)
        job.publish(*entries)
        before = rows(tmp_path)
        job.keep_up()
        left = rows(tmp_path)
        needed = before[19]["base"] or before[19]["batch_id"]
        assert left == [one for one in before if one["batch_id"] >= needed]
        assert len(left) < len(before)
        (told,) = job.upkeep.done()
        assert (told.what, told.rows) == ("forgotten", len(before) - len(left))

    def test_leave_newest_total_and_history_as_they_were_and_the_job_goes_on(
        self, tmp_path, entries
    ):
        job = Job(tmp_path)
        job.publish(*entries[:-2])
        following_it, total = Ledger(str(tmp_path)), Ledger(str(tmp_path)).total_changes()
        assert following_it.last() == entries[-3]
        job.keep_up()
        assert job.upkeep.done(), "or this shows nothing"
        assert following_it.total_changes() == Ledger(str(tmp_path)).total_changes() == total
        job.publish(*entries[-2:])
        first = rows(tmp_path)[0]["batch_id"]
        left = [one for one in entries if one.batch_id >= first]
        for ledger in (following_it, Ledger(str(tmp_path))):
            assert ledger.entries(entries[-1].batch_id) == left[::-1]
            assert ledger.last() == entries[-1]
            assert ledger.total_changes() == sum(one.changes for one in entries)
        again = Job(tmp_path, 2)
        again.publish(replace(following(Random(1), entries[-1]), term=2, changes=5))
        assert Ledger(str(tmp_path)).total_changes() == sum(one.changes for one in entries) + 5

    def test_of_an_old_form_go_once_their_sum_is_carried(self, tmp_path, entries):
        of_today_s_form(tmp_path, entries[:25])
        job = Job(tmp_path)
        job.publish(*entries[25:])
        job.keep_up()
        assert len(rows(tmp_path)) == 11
        assert Ledger(str(tmp_path)).total_changes() == sum(one.changes for one in entries)
        assert Ledger(str(tmp_path)).entries(1_000) == entries[19:][::-1]

    def test_stay_while_the_clock_says_that_one_before_them_is_young(self, tmp_path, entries):
        entries[3] = replace(entries[3], started_at=datetime.now(timezone.utc))
        job = Job(tmp_path)
        job.publish(*entries)
        job.keep_up()
        assert rows(tmp_path)[0]["batch_id"] == entries[0].batch_id

    def test_stay_where_another_has_the_lease(self, tmp_path, entries):
        job = Job(tmp_path)
        job.publish(*entries)
        job.upkeep.committer.refuse_lost = lambda: 1 / 0
        job.keep_up()
        assert len(rows(tmp_path)) == len(entries)

    def test_that_are_gone_are_no_change_of_another_writer_s(self, tmp_path, entries):
        job = Job(tmp_path)
        job.publish(*entries[:-1])
        job.keep_up()
        job.committer.begin_anew({manifest_path(str(tmp_path)): len(entries) - 1})
        job.publish(entries[-1])
        assert Ledger(str(tmp_path)).last() == entries[-1]

    def test_a_table_that_was_restored_finds_where_it_stood_as_long_as_it_can_be(
        self, tmp_path, entries
    ):
        versions = [
            replace(one, tables={"d.a": manifest.TableState("/l/d/a", at)}, high_water={})
            for at, one in enumerate(entries)
        ]
        job = Job(tmp_path)
        job.publish(*versions)
        job.keep_up()
        for at in range(19, 30):
            facts = LakeFacts("d.a", "/l/d/a", 31, foreign=Foreign(31, "RESTORE", at))
            assert versions[at] in gather_facts.history(Ledger(str(tmp_path)), [facts])


def aged(entries, old):
    """The first so many of them began days ago, the others now."""
    now = datetime.now(timezone.utc).replace(microsecond=0)
    begun = [now - timedelta(days=9 if at < old else 0) for at in range(len(entries))]
    return [replace(one, started_at=at) for one, at in zip(entries, begun, strict=True)]


def test_a_lake_of_the_first_format_is_read_and_gets_its_columns_with_the_first_row(tmp_path):
    with tarfile.open(DATA / "lake_b51fb81.tar.gz") as packed:
        tar.unpack(packed, tmp_path)
    (path,) = tmp_path.rglob("_ingest/manifest")
    lake = path.parents[1]
    refuse_other(str(lake))
    before, held = Ledger(str(lake)).entries(10_000), rows(lake)
    newest, total = before[0], Ledger(str(lake)).total_changes()
    assert total == sum(one.changes for one in before)
    job = Job(lake, newest.term + 1)
    after = [replace(following(Random(1), newest), term=newest.term + 1)]
    after.append(replace(following(Random(2), after[0]), term=newest.term + 1))
    job.publish(*after)
    found = Ledger(str(lake))
    assert found.entries(10_000) == [*after[::-1], *before]
    assert found.total_changes() == total + sum(one.changes for one in after)
    assert [{name: one[name] for name in held[0]} for one in rows(lake)[: len(held)]] == held
    log = [json.loads(one) for one in sorted(path.glob("_delta_log/*.json"))[-3].open()]
    assert [next(iter(one)) for one in log] == ["commitInfo", "metaData"]


def test_the_columns_come_once_and_a_new_lake_has_them(tmp_path):
    job, entries = Job(tmp_path), [replace(one, term=1) for one in history(Random(4), 5)]
    job.publish(*entries)
    assert DeltaTable(manifest_path(str(tmp_path))).version() == len(entries)
    fields = json.loads(DeltaTable(manifest_path(str(tmp_path))).schema().to_json())["fields"]
    assert [one["name"] for one in fields][-13:] == [
        *("base", "follows", "gaps_gone", "gaps_at", "total_changes", "stopped", "hidden"),
        *("spark_batch", "part", "lanes", "remembered", "logs", "numbers"),
    ]


def test_a_lake_of_the_format_before_is_gone_on_with_and_one_of_this_refused_by_that(
    tmp_path, monkeypatch
):
    LocalFiles(upgrade_path(str(tmp_path))).write("done.json", json.dumps({"format": LABELS}))
    refuse_other(str(tmp_path))
    lake_format.note(str(tmp_path))
    monkeypatch.setattr(lake_format, "FORMAT", LABELS)
    with pytest.raises(IngestError, match="E-LAKE-NEWER"):
        refuse_other(str(tmp_path))
