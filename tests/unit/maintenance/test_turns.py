"""All that is to be done for tables is done in time, however busy some of them are."""

from ingest.lake.delta.commit import Committer
from ingest.maintenance.schedule import Maintenance
from tests.unit.maintenance.looked_after import HOURS


class Always:
    """Something to do for each table, at each look."""

    def __init__(self):
        self.served = []

    def compact(self, path, writes, say):
        self.served.append((path, "compact"))
        return True

    def vacuum(self, path, hours, times, say):
        self.served.append((path, "vacuum"))
        return True

    def forget(self, path):
        raise AssertionError("nothing failed")


LEFT = {f"hdfs://node/lake/d/t{number}": 1 for number in range(20)}
ALL_OF_LEFT = [(path, what) for path in LEFT for what in ("compact", "vacuum")]


def test_of_many_tables_of_spark_s_each_has_its_turn_for_all_that_is_to_be_done(tmp_path):
    upkeep = Maintenance(str(tmp_path), HOURS, 1, Committer(1), "p", by_spark=Always())
    for _ in range(80):
        upkeep.between_batches([], LEFT)
    at = ALL_OF_LEFT.index(upkeep.by_spark.served[0])
    assert upkeep.by_spark.served == [*ALL_OF_LEFT[at:], *ALL_OF_LEFT[:at]] * 2


def test_runs_that_end_after_a_batch_do_all_of_it_in_time(tmp_path):
    served = []
    for term in range(1, 41):
        upkeep = Maintenance(str(tmp_path), HOURS, 1, Committer(term), "p", by_spark=Always())
        upkeep.between_batches([], LEFT)
        served += upkeep.by_spark.served
    assert sorted(served) == sorted(ALL_OF_LEFT)


def test_tables_that_always_want_to_be_put_in_order_keep_no_other_waiting(lake, monkeypatch):
    first = lake.job()
    lake.of(first)
    lake.everything_is_due()
    upkeep, table, busy = lake.upkeep(first, "rid of old versions"), lake.table.table, []
    duties = Maintenance._duties

    def beside_busy_ones(self, tables, left):
        for number in range(40):
            yield f"busy-{number}", "put in order", lambda number=number: not busy.append(number)
        yield from duties(self, tables, left)

    monkeypatch.setattr(Maintenance, "_duties", beside_busy_ones)
    for _ in range(42):
        upkeep.between_batches([table])
    assert "vacuumed" in [one.what for one in upkeep.done()]
    assert {*busy} == {*range(40)}
