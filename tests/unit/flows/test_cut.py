"""How a batch of totals is worked out, by what is known of it."""

from dataclasses import replace

import pytest

from ingest.flows.cut import Cut, Decision, LogFacts, TableCut, decide

TABLE = TableCut("/lake/d/t", 4, "id", "/lake/d/t__changes", 3, "log")
WAS = Cut(1, {"t": TABLE}, "q", "delta:out/1", 0, ())
NOW = replace(WAS, batch=2, tables={"t": replace(TABLE, version=5, log_version=4)})
SOME = {"t": LogFacts(changes=3)}


def decided(was=WAS, now=NOW, facts=SOME, **said):
    given = {"sums": True, "why_whole": "", "readable": True, **said}
    return decide(was, now, facts, **given)


def test_what_can_be_added_is_added():
    assert decided() == Decision("sums")
    assert decided(sums=False) == Decision("groups")
    assert decided(facts={"t": LogFacts()}, why_whole="it has a subquery") == Decision("nothing")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"was": None}, "it is the first batch"),
        ({"now": replace(NOW, made_of="other")}, "the flow was changed"),
        ({"now": replace(NOW, main="delta:other/2")}, "its table is another one"),
        ({"now": replace(NOW, tables={"t": replace(TABLE, id="again")})}, "the table of t was made again"),
        ({"now": replace(NOW, tables={"t": replace(TABLE, log_id="again")})}, "the table of t was made again"),
        ({"facts": {"t": LogFacts(3, ("truncate",))}}, "t has seen: truncate"),
        ({"facts": {"t": LogFacts(3, bare=1)}}, "t has changes without an image"),
        ({"why_whole": "it has a subquery"}, "it has a subquery"),
        ({"readable": False}, "what the tables were before is gone"),
    ],
)  # fmt: skip
def test_whatever_the_changes_do_not_tell_is_computed_whole(change, why):
    assert decided(**change) == Decision("whole", why)


def test_what_is_noted_is_read_back():
    assert Cut.from_text(NOW.as_text()) == NOW
