import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model.errors import IngestError
from ingest.model.names import table_folder
from ingest.model.topics import (
    TableId,
    captured,
    include_expression,
    parse_pattern,
    refuse_collisions,
    topic_of,
    topic_pattern,
    topic_prefix,
)

names = st.text(
    st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"]),
    min_size=1,
    max_size=12,
)
tables = st.builds(TableId, names, names)


def quoted(table: TableId) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in (table.database, table.name))


@given(tables, tables)
def test_a_quoted_pattern_takes_exactly_the_table_it_names(one, other):
    assert captured({one, other}, [quoted(one)]) == [one]


@given(tables)
def test_debezium_s_expression_takes_what_we_take(table):
    expression = include_expression([quoted(table)]).removeprefix("(?-i)")
    assert re.fullmatch(expression, f"{table.database}.{table.name}", re.DOTALL)
    assert "," not in expression


def test_an_excluding_pattern_wins_over_one_that_takes():
    shop = [TableId("shop", name) for name in ("orders", "tmp_1")]
    assert captured(shop, ["shop.*", "!shop.tmp_*"]) == [TableId("shop", "orders")]
    expression = include_expression(["shop.*", "!shop.tmp_*"]).removeprefix("(?-i)")
    assert [bool(re.fullmatch(expression, str(table))) for table in shop] == [True, False]


@pytest.mark.parametrize("text", ["shop", "a.b.c", "shop.", "`a.b", ".t"])
def test_what_is_not_database_dot_table_is_refused(text):
    with pytest.raises(ValueError):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a_b", "a$b"), ("订单", "支付"), ("a.b", "a_b")],
)
def test_tables_that_would_share_a_topic_are_refused_by_name(one, other):
    both = [TableId("d", one), TableId("d", other)]
    with pytest.raises(IngestError) as refusal:
        refuse_collisions("p", both, "plain")
    assert one in refusal.value.what
    assert other in refusal.value.what
    refuse_collisions("p", both, "escaped")


def test_even_escaped_names_are_refused_where_dots_make_them_one():
    with pytest.raises(IngestError):
        refuse_collisions("p", [TableId("a", "b.c"), TableId("a.b", "c")], "escaped")


def test_escaped_names_that_are_one_all_the_same_are_refused():
    """Debezium writes as few digits as U+0416 has, so a digit behind it may make another letter of it."""
    with pytest.raises(IngestError):
        refuse_collisions("p", [TableId("d", "\u0416a"), TableId("d", "\u416a")], "escaped")


@pytest.mark.parametrize(
    ("pipeline", "table", "plain", "escaped"),
    [
        ("p", TableId("d", "orders"), "p.d.orders", "p.d.orders"),
        ("p", TableId("d", "Ж"), "p.d._", "p.d._u416"),
        ("p", TableId("d", "订_单 a$b"), "p.d.____a_b", "p.d._u8ba2_u005f_u5355_u0020a_u0024b"),
        (
            "p",
            TableId("we.ird", "\x01é\u0fff\u1000ÿĀ"),
            "p.we.ird.______",
            "p.we.ird._u001_u00e9_ufff_u1000_u00ff_u100",
        ),
        (
            "my_pipe",
            TableId("shop", "order_items"),
            "my_pipe.shop.order_items",
            "my_u005fpipe.shop.order_u005fitems",
        ),
    ],
)
def test_topics_are_called_as_debezium_3_6_1_calls_them(pipeline, table, plain, escaped):
    """The names are answers of its own `DefaultTopicNamingStrategy` and `DefaultUnicodeTopicNamingStrategy`."""
    assert topic_of(pipeline, table, "plain") == plain
    assert topic_of(pipeline, table, "escaped") == escaped


@given(tables, st.sampled_from(["p-1", "my_pipe", "p__"]), st.sampled_from(["plain", "escaped"]))
def test_the_subscription_covers_every_data_topic_and_not_the_schema_topic(table, pipeline, how):
    pattern, topic = topic_pattern(pipeline, how), topic_of(pipeline, table, how)
    assert re.fullmatch(pattern, topic)
    assert topic.startswith(topic_prefix(pipeline, how))
    assert not re.fullmatch(pattern, pipeline)
    assert not re.fullmatch(pattern, f"__{pipeline}-schema-history")
    assert not re.fullmatch(pattern, topic_of(f"{pipeline}x", table, how))


@given(tables, tables)
def test_no_two_tables_share_a_folder(one, other):
    same = table_folder(one.database, one.name) == table_folder(other.database, other.name)
    assert same == (one == other)


@given(tables)
def test_a_folder_name_never_looks_hidden_or_climbs(table):
    for part in table_folder(table.database, table.name).split("/"):
        assert part[0] not in "._"


def test_a_name_of_64_three_byte_characters_still_is_a_file_name():
    assert len(table_folder("d", "订" * 64).split("/")[1].encode()) <= 255
