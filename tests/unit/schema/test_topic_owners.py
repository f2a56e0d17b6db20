"""Which topic each table's changes belong to."""

from ingest.model.topics import TableId, topic_of
from ingest.schema.topic_owners import owners

DOLLAR, LINED, OTHER = TableId("d", "a$b"), TableId("d", "a_b"), TableId("d", "x")
KNOWN = (DOLLAR, LINED, OTHER)
EVERY = {DOLLAR: "p.d.a_b", LINED: "p.d.a_b", OTHER: "p.d.x"}


def topic(table):
    return topic_of("p", table, "plain")


def test_of_some_topics_their_own_tables_alone():
    assert owners(KNOWN, {"p.d.x"}, topic) == {OTHER: "p.d.x"}


def test_both_of_two_whose_names_come_to_one_topic():
    assert owners(KNOWN, {"p.d.a_b"}, topic) == {DOLLAR: "p.d.a_b", LINED: "p.d.a_b"}


def test_of_all_where_none_is_named():
    assert owners(KNOWN, None, topic) == EVERY


def test_of_all_where_one_belongs_to_nobody():
    assert owners(KNOWN, {"p.d.x", "p.d.nobody"}, topic) == EVERY
