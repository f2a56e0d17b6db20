"""Winners and ordinals as Arrow picks them in the driver, against what they are by definition."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.arrow.record_decoder import POSITION
from ingest.arrow.winning_rows import winners
from ingest.lake.engines import collected_changes
from ingest.lake.engines.collected_changes import AbsentError, numbered
from tests.support.direct_lake import META


def place(*numbers):
    return dict(zip(("epoch", "file", "pos", "row", "part"), numbers, strict=True))


numbers = st.integers(0, 3)
places = st.tuples(numbers, numbers, numbers, numbers, numbers)


@given(st.lists(st.tuples(numbers, st.sampled_from(["", "a", "A", "a "]), places), max_size=40))
def test_of_each_key_the_highest_position_wins_compared_field_by_field(drawn):
    schema = pa.schema(
        [("n", pa.int64()), ("0", pa.string()), ("v", pa.int64()), ("_ingest", META)]
    )
    rows = [
        {"n": n, "0": text, "v": v, "_ingest": {"position": place(*at), "op": "u"}}
        for v, (n, text, at) in enumerate(drawn)
    ]
    found = winners(pa.Table.from_pylist(rows, schema=schema), ["n", "0"]).to_pylist()
    best = {}
    for n, text, at in drawn:
        best[n, text] = max(best.get((n, text), at), at)
    assert {(r["n"], r["0"]): tuple(r["_ingest"]["position"].values()) for r in found} == best
    assert len(found) == len(best)
    for row in found:  # the whole row, and not parts of several
        assert drawn[row["v"]][:2] == (row["n"], row["0"])


NET = pa.schema(
    [
        ("content", pa.string()),
        ("row", pa.struct([("a", pa.int64())])),
        ("delta", pa.int64()),
        ("position", POSITION),
        ("op", pa.string()),
        ("committed_at", pa.timestamp("us", "UTC")),
    ]
)


def net(deltas):
    rows = [
        {"content": name, "row": {"a": 7}, "delta": n, "position": place(0, 1, 2, 0, 1), "op": "u"}
        for name, n in deltas.items()
    ]
    return pa.Table.from_pylist(rows, schema=NET)


counts = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 4))


@given(before=counts, after=counts)
def test_ordinals_stay_without_gaps_whatever_comes_and_goes(before, after):
    deltas = {n: after.get(n, 0) - before.get(n, 0) for n in {*before, *after}}
    deltas = {name: delta for name, delta in deltas.items() if delta}
    held = {name: n for name, n in before.items() if n}
    table = {(name, ordinal) for name, n in before.items() for ordinal in range(1, n + 1)}
    for row in numbered(net(deltas), held, "op").to_pylist():
        one = (row["_ingest"]["content"], row["_ingest"]["ordinal"])
        assert (one in table) == (row["op"] == "d")
        table ^= {one}
    assert Counter(name for name, _ in table) == Counter({n: c for n, c in after.items() if c})
    assert all(ordinal <= after[name] for name, ordinal in table)


def test_a_row_that_is_not_there_is_not_removed_in_silence():
    with pytest.raises(AbsentError):
        numbered(net({"a": -3}), {"a": 2}, "op")


def test_a_column_without_a_chunk_is_a_table_without_rows():
    """pyarrow 25, the last for Python 3.10, takes none."""
    column = pa.chunked_array([], type=pa.struct([("id", pa.int32()), ("v", pa.string())]))
    found = collected_changes._of_fields(column)
    assert (found.num_rows, found.schema) == (0, pa.schema(list(column.type)))
    full = pa.chunked_array([[{"id": 1, "v": "a"}]], type=column.type)
    assert collected_changes._of_fields(full).to_pylist() == [{"id": 1, "v": "a"}]
