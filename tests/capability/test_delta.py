"""Facts about Delta that correctness leans on, pinned. A failure here means: read the design again."""

from pathlib import Path

import pytest
from delta.tables import DeltaTable

from ingest.lake.delta.commit import sibling
from ingest.schema.mysql_types import Column
from ingest.schema.type_changes import delta_widens, widens

APP, VERSION = (f"spark.databricks.delta.write.txn{name}" for name in ("AppId", "Version"))


@pytest.fixture
def path(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.range(4).write.format("delta").save(path)
    return path


def count(spark, path):
    return spark.read.format("delta").load(path).count()


def test_a_second_commit_with_one_identity_is_skipped_without_a_word(spark, path):
    session = sibling(spark)
    session.conf.set(APP, "a")
    session.conf.set(VERSION, "1")
    table = DeltaTable.forPath(session, path)
    table.delete("id = 0")
    table.delete("id = 1")
    assert count(spark, path) == 3


def test_the_identity_stays_in_the_session_after_the_commit(spark, path):
    session = sibling(spark)
    session.conf.set(APP, "a")
    session.conf.set(VERSION, "1")
    DeltaTable.forPath(session, path).delete("id = 0")
    assert session.conf.get(VERSION) == "1"


def test_merge_takes_its_identity_from_the_session_of_the_target(spark, path):
    session = sibling(spark)
    session.conf.set(APP, "a")
    session.conf.set(VERSION, "1")

    def merge(target_session):
        source = spark.range(9, 10)
        (
            DeltaTable.forPath(target_session, path)
            .alias("t")
            .merge(source.alias("s"), "t.id = s.id")
            .whenNotMatchedInsertAll()
            .execute()
        )

    merge(spark)
    from ingest.lake.delta.spark_table import SparkTable

    assert SparkTable(spark, path).committed("a") is None
    merge(session)
    assert SparkTable(spark, path).committed("a") == 1


def test_a_restore_carries_no_identity_and_none_has_it_skipped(spark, path):
    session = sibling(spark)
    table = DeltaTable.forPath(session, path)
    table.delete("id = 0")
    for number in ("2", "1"):
        session.conf.set(APP, "a")
        session.conf.set(VERSION, number)
        table.delete("id = 1")
        table.restoreToVersion(0)
        assert count(spark, path) == 4
    from ingest.lake.delta.spark_table import SparkTable

    assert SparkTable(spark, path).committed("a") == 2
    newest = Path(path, "_delta_log", f"{SparkTable(spark, path).version():020}.json").read_text()
    assert "RESTORE" in newest
    assert '"txn"' not in newest


def test_a_sibling_session_has_settings_of_its_own(spark):
    one, other = sibling(spark), sibling(spark)
    one.conf.set(APP, "a")
    assert other.conf.get(APP, None) is None
    assert spark.conf.get(APP, None) is None
    assert one.conf.get("spark.sql.session.timeZone") == "UTC"


def test_an_empty_merge_still_commits_its_marker(spark, path):
    from ingest.lake.delta.spark_table import SparkTable

    session = sibling(spark)
    session.conf.set(APP, "a")
    session.conf.set(VERSION, "7")
    (
        DeltaTable.forPath(session, path)
        .alias("t")
        .merge(spark.range(0).alias("s"), "t.id = s.id")
        .whenMatchedDelete()
        .execute()
    )
    assert SparkTable(spark, path).committed("a") == 7


def test_a_new_table_starts_with_no_markers_and_time_travel_reads_old_versions(spark, path):
    DeltaTable.forPath(spark, path).delete("id < 2")
    old = spark.read.format("delta").option("versionAsOf", 0).load(path)
    assert (old.count(), count(spark, path)) == (4, 2)


PLAIN = ("tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp_ntz")
DIGITS = ("5,2", "10,0", "12,2", "14,4", "19,0", "20,0", "38,5")
TYPES = (*PLAIN, *(f"decimal({digits})" for digits in DIGITS))


def test_what_evolve_widens_in_place_delta_widens_in_place(spark):
    """`evolve` decides it without Spark; here Delta's own list is asked."""
    widening = spark._jvm.org.apache.spark.sql.delta.TypeWidening
    java = {name: spark._jvm.org.apache.spark.sql.types.DataType.fromDDL(name) for name in TYPES}
    held = {
        (old, new)
        for old in TYPES
        for new in TYPES
        if widens(old, new, None, column_for(new)) and delta_widens(old, new)
    }
    assert len(held) > 20
    for old, new in held:
        assert widening.isTypeChangeSupported(java[old], java[new]), f"{old} to {new}"
    refused = [("tinyint", "decimal(5,2)"), ("bigint", "decimal(19,0)")]
    for old, new in refused:
        assert not delta_widens(old, new)
        assert not widening.isTypeChangeSupported(java[old], java[new])


def column_for(delta):
    """A MySQL column that this Delta type holds."""
    name, _, digits = delta.removesuffix(")").partition("(")
    if digits:
        precision, scale = map(int, digits.split(","))
        return Column("c", "DECIMAL", precision, scale, optional=True)
    name = {"timestamp_ntz": "DATETIME"}.get(name, name.upper())
    return Column("c", name, None, None, optional=True)
