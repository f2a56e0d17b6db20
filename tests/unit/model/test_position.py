import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model.position import PART_DELETE, PART_WRITE, Position, file_number

positions = st.builds(
    Position,
    epoch=st.integers(0, 3),
    file=st.integers(0, 2_000_000),
    pos=st.integers(0, 2**40),
    row=st.integers(0, 9_000),
    part=st.sampled_from([PART_DELETE, PART_WRITE]),
)


@given(positions, positions)
def test_the_order_is_total_and_has_no_ties_between_different_positions(a, b):
    assert (a < b) + (b < a) + (a == b) == 1


def test_binlog_files_compare_as_numbers_not_as_text():
    assert file_number("binlog.1000000") > file_number("binlog.999999")


def test_a_new_epoch_is_later_than_any_position_of_the_old():
    assert Position(1, 1, 4) > Position(0, 999_999, 2**40)


def test_the_delete_half_of_a_key_change_comes_before_its_create_half():
    assert Position(0, 1, 4, 0, PART_DELETE) < Position(0, 1, 4, 0, PART_WRITE)


def test_a_file_without_a_number_is_refused():
    with pytest.raises(ValueError, match="number"):
        file_number("binlog")


@given(positions)
def test_a_position_survives_its_mapping(position):
    assert Position.from_mapping(position.as_dict()) == position
