"""A sink that keeps its place takes each batch once, whatever dies and comes again; and anything else is not guessed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.flows.batch_place import Place, act, is_act, lost


def behind(number, ends=None, checkpoint="c", generation=1):
    return Place(checkpoint, generation, number, "" if number < 0 else ends or f"end of {number}")


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_each_batch_is_applied_once_however_often_it_comes(story):
    """``story``: of each try whether the sink's commit is reached, and whether Spark's is, too."""
    held, applied, done = behind(-1), [], -1
    for sink_commits, spark_commits in story:
        number = done + 1
        said = act(held, behind(number - 1), behind(number))
        assert is_act(said)
        if said == "apply" and sink_commits:
            applied.append(number)
            held = behind(number)
        if held == behind(number) and spark_commits:
            done = number
    assert applied == list(range(len(applied)))
    assert len(applied) in (done + 1, done + 2)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (None, "it holds nothing of this flow"),
        (behind(3), "it is behind batch 3, and this is batch 6"),
        (behind(9), "it is behind batch 9, and this is batch 6"),
        (behind(5, "elsewhere"), "it is behind batch 5, at another place of the inputs"),
        (behind(6, "elsewhere"), "it is behind batch 6, at another place of the inputs"),
        (behind(5, checkpoint="x"), "it is behind batch 5 of another checkpoint (x)"),
    ],
)
def test_anything_else_is_said_and_nothing_is_done(held, said):
    found = act(held, behind(5), behind(6))
    assert not is_act(found)
    assert found.startswith(said)


def test_a_batch_without_anything_new_is_told_from_the_one_before_by_its_number():
    first, end = behind(5, "same"), behind(6, "same")
    assert act(first, first, end) == "apply"
    assert act(end, first, end) == "skip"


def test_what_an_earlier_generation_has_left_is_replaced_and_a_later_one_s_is_not():
    now = [behind(-1, generation=2), behind(0, generation=2)]
    assert act(behind(7, checkpoint="x"), *now) == "anew"
    assert not is_act(act(behind(7, checkpoint="x", generation=2), *now))


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (behind(4), ""),
        (behind(5), ""),
        (behind(3, checkpoint="x", generation=0), ""),
        (None, "what it has noted there is gone"),
        (behind(6), "its checkpoint is older"),
        (behind(2), "it is older than its checkpoint"),
        (replace(behind(2), checkpoint="x"), "another checkpoint has written there (x)"),
    ],
)
def test_a_start_says_with_what_it_cannot_go_on(held, why):
    """Behind batch 4, with batch 5 planned."""
    found = lost(held, behind(4), 5)
    assert found.startswith(why)
    assert bool(found) == bool(why)
