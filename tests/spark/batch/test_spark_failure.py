"""What Spark's failures are, told by Java's classes and Spark's conditions, as the real ones come."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ingest.batch.spark_failure import kinds
from ingest.job.stream_failure import again, is_everybodys

VALUE = "possible data loss, [KAFKA_DATA_LOSS], OffsetOutOfRange, java.lang.OutOfMemoryError: heap"


def test_a_row_that_a_constraint_of_somebody_else_s_refuses_is_its_table_s(spark, tmp_path):
    path = tmp_path / "FetchFailed"
    spark.sql(f"CREATE TABLE delta.`{path}` (v STRING) USING delta")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT short CHECK (length(v) < 3)")
    with pytest.raises((PySparkException, Py4JJavaError)) as failed:
        spark.createDataFrame([(VALUE,)], "v STRING").write.format("delta").mode("append").save(
            str(path)
        )
    assert "KAFKA_DATA_LOSS" in str(failed.value)
    assert "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES" in kinds(failed.value)
    assert not is_everybodys(failed.value)
    assert again(failed.value, tmp_path / "log").code == "E-STREAM-FAILED"


def test_a_task_that_fails_by_a_value_is_its_table_s(spark):
    with pytest.raises((PySparkException, Py4JJavaError)) as failed:
        spark.range(1).selectExpr(f"raise_error('{VALUE}')").collect()
    assert not is_everybodys(failed.value)


def thrown(spark, name, maps=0):
    """An exception of Java's, made of so many empty maps."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    types = gateway.new_array(jvm.java.lang.Class, maps)
    given = gateway.new_array(jvm.java.lang.Object, maps)
    for number in range(maps):
        types[number] = loader.loadClass("java.util.Map")
        given[number] = jvm.java.util.HashMap()
    return loader.loadClass(name).getConstructor(types).newInstance(given)


@pytest.mark.parametrize(
    ("java", "code"),
    [
        ("java.lang.OutOfMemoryError", "E-SPARK-MEMORY"),
        ("org.apache.kafka.common.errors.TimeoutException", "E-STREAM-FAILED"),
        ("org.apache.kafka.clients.consumer.OffsetOutOfRangeException", "lost-records"),
    ],
)
def test_what_java_threw_is_told_by_its_class_however_deep_it_lies(spark, tmp_path, java, code):
    inner = thrown(spark, java, maps=int(code == "lost-records"))
    outer = spark._jvm.org.apache.spark.SparkException("Job aborted", inner)
    failure = Py4JJavaError("An error occurred", outer)
    assert is_everybodys(failure)
    assert again(failure, tmp_path / "log").code == code


def test_what_kafka_raises_in_a_task_is_everybody_s(spark):
    checks = "reflect('org.apache.kafka.common.internals.Topic', 'validate', id || '/')"
    with pytest.raises((PySparkException, Py4JJavaError)) as failed:
        spark.range(1).selectExpr(checks).collect()
    assert "org.apache.kafka.common.errors.InvalidTopicException" in kinds(failed.value)
    assert is_everybodys(failed.value)


def test_where_java_cannot_be_asked_any_more_nothing_is_known_and_nothing_raised():
    def refused():
        raise ConnectionRefusedError(111, "Connection refused")

    failure = PySparkException("[KAFKA_DATA_LOSS] x")
    failure._origin = SimpleNamespace(getClass=refused)
    assert kinds(failure) == frozenset()
