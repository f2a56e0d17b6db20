"""A server that is away for a moment is no trouble of the table at which it was noticed: Java's failures, as they come through Spark."""

import errno
import os
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.files import refused_alone
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError
from ingest.lake.files.server_failure import is_refusal
from ingest.model.errors import IngestError
from ingest.start import gather_facts, repair
from ingest.start.fencing import fence_every_target
from ingest.start.look_at_log import look_at_log
from ingest.start.look_at_table import look

LAKE = "hdfs://node:8020/lake"


ABOVE = {"java.net.ConnectException": "java.net.SocketException"}


def java(name, message="Call From here to node:8020 failed on connection exception"):
    return SimpleNamespace(
        getClass=lambda: java_class(name), getMessage=lambda: message, getCause=lambda: None
    )


def java_class(name):
    above = ABOVE.get(name)
    return SimpleNamespace(
        getName=lambda: name,
        getSimpleName=lambda: name.rpartition(".")[2],
        getSuperclass=lambda: java_class(above) if above else None,
    )


class OfJava(Py4JJavaError):
    def __init__(self, name, message="Call From here to node:8020 failed"):
        self.java_exception, self.said = java(name, message), f"{name}: {message}"

    def __str__(self):
        return f"An error occurred while calling o12.update.\n: {self.said}"


class Refused(OfJava):
    """What an object store answers, as Amazon's client throws it."""

    def __init__(self, status):
        name = "software.amazon.awssdk.awscore.exception.AwsServiceException"
        super().__init__(name, str(status))
        self.java_exception.statusCode = lambda: status
        self.java_exception.awsErrorDetails = lambda: None


class OfSpark(AnalysisException):
    def __init__(self, name):
        super().__init__(message=name)
        self._origin = java(name)


AWAY = [
    OfJava("java.net.ConnectException"),
    OfJava("java.net.SocketTimeoutException"),
    OfSpark("java.net.ConnectException"),
]
BROKEN = OfJava("org.apache.spark.sql.delta.DeltaIllegalStateException", "a file is missing")
FULL = OfJava("java.io.IOException", os.strerror(errno.ENOSPC))


class Failing(SparkTable):
    """A table that Spark alone finds, and does not."""

    def __init__(self, failure, path=f"{LAKE}/shop/orders"):
        super().__init__(None, path)
        self.failure = failure

    def fails(self, *_):
        raise self.failure

    def exists(self):
        return True

    version = commits = markers = property_of = restore = _metadata = fails


PIPELINE = SimpleNamespace(name="p", lake=SimpleNamespace(path=LAKE))


def looks(table):
    yield lambda: look(table, "shop.orders", PIPELINE, None, None)
    yield lambda: look_at_log(table, "shop.orders", None, PIPELINE, 9)


@pytest.mark.parametrize("failure", AWAY)
def test_a_table_behind_a_server_that_is_away_is_none_that_cannot_be_read(failure):
    for asked in looks(Failing(failure)):
        with pytest.raises(LakeAwayError) as away:
            asked()
        assert away.value.may_pass


@pytest.mark.parametrize("lets_in", [True, False])
def test_what_a_store_refuses_of_one_table_stops_no_start_where_it_lets_us_in_otherwise(
    lets_in, monkeypatch
):
    """Of a lake that is denied altogether nothing is known of any table."""
    monkeypatch.setattr(refused_alone, "lets_in", lambda lake: lets_in and lake == LAKE)
    for asked in looks(Failing(Refused(403))):
        if lets_in:
            assert "403" in asked().unreadable
            continue
        with pytest.raises(LakeDeniedError):
            asked()


def test_what_a_store_may_answer_otherwise_soon_is_no_refusal():
    answers = {status: is_refusal(Refused(status)) for status in (400, 403, 404, 405, 429, 503)}
    assert answers == {400: True, 403: True, 404: False, 405: True, 429: False, 503: False}


def test_a_table_on_a_disk_that_is_full_is_none_that_cannot_be_read():
    for asked in looks(Failing(FULL)):
        with pytest.raises(Py4JJavaError):
            asked()


def test_a_table_whose_own_trouble_it_is_stands_still_alone():
    for asked in looks(Failing(BROKEN)):
        assert "a file is missing" in asked().unreadable


@pytest.mark.parametrize("failure", [*AWAY, FULL])
def test_a_version_is_not_gone_because_a_server_was_away_or_a_disk_full(monkeypatch, failure):
    """It would be decided without it: the table stands between two versions for good, or is taken again."""
    monkeypatch.setattr(repair, "SparkTable", lambda *_: going_back(failure))
    tables = repair._Tables(None, lambda: None)
    with pytest.raises((IngestError, Py4JJavaError)):
        tables.restore([(f"{LAKE}/_ingest/quarantine", 3)])
    assert tables.unrestorable == set()


def test_a_version_whose_files_are_gone_is_decided_without(monkeypatch):
    monkeypatch.setattr(repair, "SparkTable", lambda *_: going_back(BROKEN))
    tables = repair._Tables(None, lambda: None)
    tables.restore([(f"{LAKE}/_ingest/quarantine", 3)])
    assert tables.unrestorable == {(f"{LAKE}/_ingest/quarantine", 3)}


def going_back(failure):
    table = Failing(failure)
    table.version = lambda: 7
    return table


def test_a_take_over_leaves_no_table_unfenced_that_a_server_hides_for_a_moment(monkeypatch):
    def gather(*_):
        return look(Failing(AWAY[0]), "shop.orders", PIPELINE, None, None)

    monkeypatch.setattr(gather_facts, "gather", gather)
    with pytest.raises(LakeAwayError):
        fence_every_target(None, PIPELINE, None)
