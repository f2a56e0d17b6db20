"""`numberings`: which transactions of which servers a partition has brought."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from ingest.lake.manifest.next_entry import high_water
from ingest.model import manifest, numberings
from ingest.model.gtid import numbered
from ingest.model.manifest import Entry, HighWater
from ingest.model.position import Position
from ingest.model.topics import TableId
from tests.support.declared_tables import at, facts
from tests.support.sound_start import PLACE, entry

GTIDS = st.builds(
    lambda server, tag, number: f"{server}{tag}:{number}",
    st.sampled_from(["a", "ab", "b"]),
    st.sampled_from(["", "", ":t", ":_"]),
    st.integers(1, 12),
)


def marked(mark, position, gtid, numbers=None):
    """The mark after a batch of which this is the newest change."""
    found = replace(
        facts(position, position),
        high_water={PLACE: (position, gtid)},
        numbers={PLACE: numbers or {}},
    )
    return high_water(entry(high_water={PLACE: mark}), {TableId("d", "t"): found}, {}, {})[PLACE]


@given(st.lists(GTIDS, min_size=1))
@example(["a:1", "a:t:1", "a:9"])
@example(["a:2", "ab:1"])
def test_the_first_and_the_last_of_some_gtids_say_whether_all_are_of_one_numbering(gtids):
    several = {numbered(gtid)[0] for gtid in gtids}
    assert numberings.is_one(min(gtids), max(gtids)) == (len(several) == 1)


@given(st.lists(st.lists(st.sampled_from(["a", "b", "b:t"]), min_size=1), min_size=1))
def test_a_mark_knows_the_newest_transaction_of_each_numbering_that_came(batches):
    mark, newest = HighWater(), dict[str, int]()
    for number, numberings_of_batch in enumerate(batches):
        gtids = list[str]()
        for name in numberings_of_batch:
            newest[name] = newest.get(name, 0) + 1
            gtids.append(f"{name}:{newest[name]}")
        mark = marked(mark, at(number), gtids[-1], numberings.of(*gtids))
        assert numberings.newest(dict(mark.others), numberings.of(mark.gtid)) == newest
        assert len(mark.others) == len(newest) - 1


def test_of_a_log_that_is_over_its_newest_transaction_is_known_and_no_other():
    old = HighWater(5, Position(0, 7, 99), "a:9", others=(("c", 3),))
    later = Position(1, 1, 4)
    assert marked(old, later, "b:1") == HighWater(5, later, "b:1", others=(("a", 9),))
    assert marked(old, Position(0, 8, 4), "b:1").others == (("a", 9), ("c", 3))


def test_a_row_of_the_manifest_has_them_and_one_of_an_earlier_version_none():
    mark = HighWater(5, Position(0, 7, 99), "a:9", "T", (("b", 3), ("b:t", 4)))
    published = entry(high_water={PLACE: mark, ("p.d.u", 1): HighWater(3)})
    row = published.as_row()
    assert Entry.from_row(row).high_water == published.high_water
    assert "others" not in row["high_water"][0]
    assert "numbers array<" in manifest.SCHEMA
    del row["numbers"]
    assert Entry.from_row(row).high_water[PLACE].others == ()
