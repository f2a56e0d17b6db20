"""What tables are called in a catalogue, and what is done to an entry."""

from hypothesis import given
from hypothesis import strategies as st

from ingest.model.catalog_names import CatalogEntry, CatalogName, act, catalog_names
from ingest.model.topics import TableId

TEXTS = st.text("aAbB_1-ü ", min_size=1, max_size=3)


def test_tables_are_called_as_in_mysql_or_as_the_pattern_says():
    shop = TableId("Shop", "Orders")
    assert catalog_names([shop], "{database}") == ({shop: CatalogName("shop", "orders")}, {})
    assert catalog_names([shop], "x_{database}")[0][shop].database == "x_shop"


def test_what_a_catalogue_cannot_tell_apart_or_write_has_no_name_and_a_reason():
    tables = [TableId("s", "a"), TableId("s", "A"), TableId("s", "b-c"), TableId("s", "d")]
    named, unfit = catalog_names(tables, "{database}")
    assert {*named} == {TableId("s", "d")}
    assert "s.A would be called s.a, too" in unfit[TableId("s", "a")]
    assert "letters of English" in unfit[TableId("s", "b-c")]


@given(st.sets(st.builds(TableId, TEXTS, TEXTS)))
def test_each_table_is_named_or_has_a_reason_and_no_two_are_called_the_same(tables):
    named, unfit = catalog_names(tables, "{database}")
    assert named.keys() | unfit.keys() == tables
    assert not named.keys() & unfit.keys()
    assert len({*named.values()}) == len(named)


def test_an_entry_of_somebody_else_is_never_changed():
    ours = CatalogEntry("file:/a", "delta", "1")
    assert act(None, ours) == "create"
    assert act(CatalogEntry("file:/a/", "delta", ""), ours) == "nothing"
    assert act(CatalogEntry("file:/b", "delta", "1"), ours) == "move"
    assert act(CatalogEntry("file:/b", "delta", "2"), ours) == "refuse", "a lake of the same name"
    assert act(CatalogEntry("file:/b", "delta", ""), ours._replace(id="")) == "refuse"
    assert act(CatalogEntry("file:/a", "parquet", ""), ours) == "refuse", (
        "readers would see removed rows"
    )


def test_a_table_that_was_made_anew_at_its_place_is_known_by_its_new_id():
    """Else its entry could not follow it, when the lake moves."""
    anew = CatalogEntry("file:/a", "delta", "2")
    assert act(CatalogEntry("file:/a/", "delta", "1"), anew) == "identify"
    assert act(CatalogEntry("file:/a", "delta", "2"), anew) == "nothing"
    assert act(CatalogEntry("file:/a", "delta", "1"), anew._replace(id="")) == "nothing"
    assert act(CatalogEntry("file:/a", "delta", ""), anew) == "nothing", "somebody else's"
