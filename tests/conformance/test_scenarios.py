"""The named scenarios, and what else is said of a batch that one of them cannot say."""

from collections import defaultdict
from itertools import chain

import pytest

from ingest.model.specification import row
from tests.conformance.histories import History, Record
from tests.conformance.scenarios import SCENARIOS, SNAPSHOT, change, delete, insert, read, truncate
from tests.conformance.targets import SparkTarget


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(spark, tmp_path, name):
    SCENARIOS[name].run(spark, tmp_path)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_place_in_the_log_of_a_scenario_is_of_one_row(name):
    rows = defaultdict(set)
    for each in chain(*SCENARIOS[name].batches):
        if each.operation != "read":  # those are all where their snapshot was taken
            image = dict(each.after or each.before or {})
            rows[each.position.pos, each.position.row].add(image.get("id"))
    assert all(len(found) == 1 for found in rows.values())


def test_a_batch_that_spark_called_late_is_read_again_and_counted(spark, tmp_path):
    """A clock set back makes every record late to Spark, which drops all of them before we see any."""
    history = History(True, 1, snapshots=[SNAPSHOT], records=[[Record(insert(10, 1, "a"))]])
    target = SparkTarget(spark, tmp_path, history, dedup={"by": "both"})
    target.log.batches.append({("h.d.t0", 0): (0, 1)})
    target.log.late.add(0)
    target.batches.apply(target.log.read({}), 0)
    assert target.content() == {row(id=1, v="a"): 1}
    assert target.batches.newest.late == 1
    target.remove()


def test_every_topic_read_again_from_its_beginning_makes_no_version(spark, tmp_path):
    changes = [
        read(5, 1, "s"),
        insert(10, 2, "a"),
        delete(20, 1, "s"),
        truncate(30),
        change("delete", 40, (2, "a")),
        change("insert", 40, None, (3, "a")),
        insert(50, 2, "back"),
    ]
    history = History(True, 1, snapshots=[SNAPSHOT], records=[[Record(each) for each in changes]])
    target = SparkTarget(spark, tmp_path, history)
    target.take({0: [4]})
    target.take({0: [7]})
    content, versions = target.content(), len(target.versions())
    target.start(from_beginning=True)
    for end in (2, 5, 7):
        target.take({0: [end]})
        assert (target.content(), len(target.versions())) == (content, versions)
    assert [report.entry.resent for report in target.seen[-3:]] == [2, 3, 2]
    target.remove()


def test_why_spark_had_to_read_a_table_is_said(spark, tmp_path):
    def changes(keyed):
        return [[Record(insert(10 * n, n, "a", keyed=keyed)) for n in (1, 2)]]

    histories = [
        History(keyed, 1, snapshots=[SNAPSHOT], records=changes(keyed)) for keyed in (True, False)
    ]
    target = SparkTarget(spark, tmp_path, *histories, spark={"merge_engine": "auto"})
    target.take({0: [2], 1: [2]})
    tables = target.batches.newest.tables
    assert "Spark" not in tables["d.t0"].engine
    assert tables["d.t1"].engine.endswith("; read by Spark: it has no key")
    target.remove()
