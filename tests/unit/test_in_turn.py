"""`in_turn`: ten turns run every slow test once, and the same commit the same ones."""

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.in_turn import BY_CASE, BY_FILE, EACH_TIME, TURNS, is_due, turn_of

ROOT = Path(__file__).parents[2]
SLOW = [file for folder in (*BY_CASE, *BY_FILE) for file in (ROOT / folder).rglob("test_*.py")]
names = st.text(min_size=1)


def turns(file, name):
    return [turn for turn in range(TURNS) if is_due(file, name, turn)]


@given(st.sampled_from([*BY_CASE, *BY_FILE]), names, names)
def test_each_slow_test_is_of_one_turn(folder, file, name):
    assert len(turns(f"{folder}/test_{file}.py", name)) == 1


def test_what_needs_no_server_and_what_says_most_is_of_every_turn():
    for file in ("tests/unit/test_in_turn.py", "tests/docs/test_docs.py", *EACH_TIME):
        assert (ROOT / file).is_file()
        assert turns(file, "test_x") == [*range(TURNS)]


def test_cases_that_share_a_file_s_servers_go_together():
    for folder in BY_FILE:
        assert len({*map(tuple, (turns(f"{folder}/test_a.py", name) for name in "abcdefgh"))}) == 1
    for folder in BY_CASE:
        assert len({*map(tuple, (turns(f"{folder}/test_a.py", name) for name in "abcdefgh"))}) > 1


def test_no_turn_has_much_more_than_its_share_of_the_files():
    files = [str(file.relative_to(ROOT)) for file in SLOW]
    shares = Counter(turns(file, "")[0] for file in files if file not in EACH_TIME)
    assert len(shares) == TURNS
    assert max(shares.values()) < 4 * min(shares.values())


def test_where_nobody_can_say_which_commit_it_is_there_is_a_turn_all_the_same(tmp_path):
    assert turn_of(tmp_path) == 0
    assert turn_of(ROOT) == turn_of(ROOT)
