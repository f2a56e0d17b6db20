"""Deletion vectors in the commit: what is written is read, by the protocol's own format."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from ingest.lake.delta.deletion_vector import (
    UnreadableError,
    _decoded,
    _encoded,
    file_of,
    inline,
    rows,
)

# As Delta's protocol and its Java and Rust kernels have it.
KNOWN = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}


def test_the_protocol_s_own_example_is_read_and_written():
    assert list(rows(KNOWN)) == [3, 4, 7, 11, 18, 29]
    assert inline([29, 3, 4, 7, 11, 18]) == KNOWN


@given(st.sets(st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1)), max_size=500))
def test_what_is_written_is_read(numbers):
    written = inline(numbers)
    assert set(rows(written)) == numbers
    assert written["cardinality"] == len(numbers)


@given(st.integers(0, 2**20), st.integers(1, 100_000))
def test_rows_that_follow_each_other_are_read(first, count):
    assert list(rows(inline(range(first, first + count)))) == list(range(first, first + count))


@given(
    st.one_of(
        st.sets(
            st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1)), min_size=1, max_size=500
        ),
        st.tuples(st.integers(0, 2**31), st.integers(1, 100_000)).map(
            lambda at: range(at[0], sum(at))
        ),
    )
)
def test_the_library_s_64_bit_bitmap_is_the_protocol_s_frame_around_one_of_32_bits(numbers):
    """The frame as Delta's protocol has it, and as earlier versions wrote it by hand."""
    by_hand = struct.pack("<iqi", 1681511377, 1, 0) + BitMap(numbers).serialize()
    written = inline(numbers)
    assert written["sizeInBytes"] == len(by_hand)
    padded = by_hand + bytes(-len(by_hand) % 4)
    assert _decoded(written["pathOrInlineDv"]) == padded


def test_an_empty_one_of_an_earlier_version_is_read():
    empty = struct.pack("<iqi", 1681511377, 1, 0) + BitMap().serialize()
    assert not rows({**KNOWN, "pathOrInlineDv": _encoded(empty), "sizeInBytes": len(empty)})
    assert not rows(inline([]))


def test_row_numbers_of_more_than_32_bits_and_another_format_are_refused():
    for raw in (
        struct.pack("<i", 1681511377) + BitMap64([1, 2**32]).serialize(),
        struct.pack("<i", 1681511376) + BitMap64([1]).serialize(),
    ):
        with pytest.raises(UnreadableError, match="another format"):
            rows({**KNOWN, "pathOrInlineDv": _encoded(raw), "sizeInBytes": len(raw)})


def test_a_file_without_one_has_no_deleted_row():
    assert not rows(None)


def test_one_in_a_file_of_its_own_is_not_taken_for_ours():
    with pytest.raises(UnreadableError):
        rows({**KNOWN, "storageType": "u"})


def test_the_file_of_the_protocol_s_own_example_is_found():
    elsewhere = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    assert file_of(elsewhere) == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert file_of(KNOWN) is None
    assert file_of(None) is None
