"""A feature more, in what a table asks of its readers and writers."""

from ingest.lake.delta.table_features import with_feature

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
NAMED = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["appendOnly", "deletionVectors"],
}


def test_a_plain_table_names_what_it_asked_for_without_a_name():
    assert with_feature(PLAIN, "timestampNtz") == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["timestampNtz"],
        "writerFeatures": ["appendOnly", "invariants", "timestampNtz"],
    }


def test_one_that_names_its_features_gets_one_more_and_no_other():
    found = with_feature(NAMED, "timestampNtz")
    assert found["readerFeatures"] == ["deletionVectors", "timestampNtz"]
    assert found["writerFeatures"] == ["appendOnly", "deletionVectors", "timestampNtz"]


def test_one_that_has_it_stays_the_same_one():
    assert with_feature(NAMED, "deletionVectors") is NAMED
