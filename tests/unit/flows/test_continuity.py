"""Which change of a flow its state can follow."""

from dataclasses import replace

import pytest

from ingest.flows.continuity import Fingerprint, continuity

COUNT = "Aggregate(word string; count(1) bigint)"
NOW = Fingerprint((("words", "files /w"),), "append", (COUNT,), "plan", "function")


def test_nothing_is_said_of_what_was_not_changed():
    assert continuity(NOW, NOW).cannot == continuity(NOW, NOW).changed == ""
    assert Fingerprint.from_json(NOW.as_json()) == NOW


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"function": "other"}, "its source was changed, and its query was not"),
        ({"plan": "other", "function": "other"}, "its query was changed, and its state can follow"),
    ],
)
def test_it_goes_on_where_its_state_is_the_same(changed, said):
    found = continuity(NOW, replace(NOW, **changed))
    assert (found.cannot, found.changed) == ("", said)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"inputs": (("words", "files /v"),)}, "its inputs were words (files /w) and are"),
        ({"mode": "update"}, "its mode was append and is update now"),
        ({"state": (COUNT.replace("string", "int"),)}, f"its state was of {COUNT} and would be of"),
        ({"state": (COUNT, "Deduplicate(a int)")}, "it has a new Deduplicate(a int)"),
        ({"state": ()}, f"it has no {COUNT} any more"),
    ],
)
def test_it_is_named_what_its_state_cannot_follow(changed, said):
    assert continuity(NOW, replace(NOW, **changed)).cannot.startswith(said)
