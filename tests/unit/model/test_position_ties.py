"""What MySQL says of a place in its log decides whether changes at it were sent again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model.position import Position
from ingest.model.position_ties import PAYLOAD, WRAPS_AT, Doubt, Event, Tie, doubts, torn
from ingest.model.topics import TableId

T, U = TableId("d", "t"), TableId("d", "u")
AT = Position(0, 3, 276, 0, 1)


@pytest.mark.parametrize(
    ("same", "event", "said"),
    [
        (True, Event("Update_rows", 500), ""),
        (True, Event("Write_rows", 500), ""),
        (True, Event(PAYLOAD, 500), "binlog_transaction_compression"),
        (True, Event("", 500), "no longer has that log"),
        (True, None, "no longer has that log"),
        (False, Event("Update_rows", 500), ""),
        (False, Event(PAYLOAD, 500), ""),
        (False, None, ""),
        (False, Event("Update_rows", WRAPS_AT + 1), "4 GiB"),
        (True, Event("Update_rows", WRAPS_AT + 1), "4 GiB"),
        (True, Event("Update_rows", WRAPS_AT), ""),
    ],
)
def test_nothing_is_guessed(same, event, said):
    found = doubts([Tie(T, AT, same)], {AT: event} if event else {})
    assert list(found) == ([T] if said else [])
    for doubt in found.values():
        assert said in doubt.reason
        assert doubt.position == AT


@given(st.lists(st.tuples(st.sampled_from([T, U]), st.integers(1, 9), st.booleans())))
def test_a_table_is_in_doubt_just_where_one_of_its_ties_is(drawn):
    ties = [Tie(table, Position(0, 1, pos), same) for table, pos, same in drawn]
    events = {
        tie.position: Event(PAYLOAD if tie.position.pos % 2 else "Write_rows") for tie in ties
    }
    guilty = [tie for tie in ties if tie.same and tie.position.pos % 2]
    found = doubts(ties, events)
    assert set(found) == {tie.table for tie in guilty}
    for table, doubt in found.items():
        assert doubt.position == max(tie.position for tie in guilty if tie.table == table)


def test_what_another_server_may_send_again_is_in_doubt():
    assert torn({T: AT}) == {T: Doubt(torn({T: AT})[T].reason, AT)}
    assert "another server" in torn({T: AT})[T].reason
