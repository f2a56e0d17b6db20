"""What Spark throws where an object store does not answer as it should is no table's own failure."""

from tests.support import own_process


def test_a_store_s_failure_stops_no_table_and_what_is_gone_cut_off_or_denied_of_it_alone_does():
    """Wherever it comes: at a look, a list, a data file (which another client of Amazon's reads), or a commit."""
    said = own_process.came_out("tests.object_store.server_failures", seconds=300)
    found = {what: tuple(told) for what, told in said.items()}
    own = {what: found.pop(what) for what in ("gone", "cut off")}
    assert set(own.values()) == {(False, "")}
    assert found.pop("denied of one table") == (False, "E-LAKE-DENIED"), "the lake lets us in"
    # The answer to a look has no body, so that 400 is all that it says.
    refused = {what for what in found if what.startswith(("denied", "expired"))} - {
        "expired at look"
    }
    assert len(refused) == 8
    assert found == {
        what: (True, "E-LAKE-DENIED" if what in refused else "E-LAKE-AWAY") for what in found
    }
    assert {"busy at read", "lost at look", "tls", "no-such-bucket"} < found.keys()
