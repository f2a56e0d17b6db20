"""What a failure of Spark's is, by the words that Spark and Java chose and no row, name or path can: the classes that were thrown, Spark's conditions, and,
where a task or an executor failed without anything that the driver was given, what stands in the one place of a text where Spark writes it.

A text as a whole is never searched: it holds values of rows, names of tables and the paths of their folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from ingest.lake.files.disk_failure import chain
from ingest.lake.files.server_failure import thrown_in_java

CANCELLED = "SPARK_JOB_CANCELLED"
"""The condition of a job that somebody had cancelled."""

_TASK = r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^()\n]*\)"
_HEAD = re.compile(
    r"(?:\[STREAM_FAILED\] Query \[[^\]\n]*\] terminated with exception: )?"
    r"(?:Job aborted due to stage failure: )?"
    rf"(?:Task [\d.]+ in stage [\d.]+ failed \d+ times?(?:, most recent failure: {_TASK})?: "
    r"|Task serialization failed: |Exception while getting task result: "
    r"|\w+ \d+ \([^\n]*?\) has failed the maximum allowable number of times: \d+\. Most recent failure reason:\s+)?"
    r"(?P<kind>[A-Za-z_$][\w.$]*)?(?:(?:: )?\[(?P<condition>[A-Z][A-Z0-9_.]*)\])?"
)
"""As ``DAGScheduler``, ``TaskSetManager`` and a streaming query begin theirs, up to the class or the condition of what they tell of."""
_ENDED = re.compile(
    r"Job \d+ cancelled because SparkContext was shut down"
    r"|Cannot call methods on a stopped SparkContext"
)
STOPPED = "SparkContext was shut down"
_TELL = frozenset(
    [
        "java.lang.IllegalStateException",
        "org.apache.spark.SparkException",
        "org.apache.spark.sql.streaming.StreamingQueryException",
    ]
)
"""Classes whose messages begin as above."""


def kinds(failure: BaseException) -> frozenset[str]:
    """Java's classes, by their full names, and Spark's conditions of a failure and of those that have led to it. None of a failure of Python's."""
    return frozenset(_kinds(failure))


def _kinds(failure: BaseException) -> Iterator[str]:
    try:
        for java in thrown_in_java(failure):
            yield from _thrown(java)
    except (Py4JError, OSError, AttributeError):
        pass  # Java cannot be asked any more: what is known by now
    for one in chain(failure):
        if isinstance(one, Py4JError | PySparkException) and not _has_java(one):
            with suppress(Exception):  # some ask Spark for their words, which may be gone
                yield from _told_by(str(one))


def _has_java(failure: BaseException) -> bool:
    return (
        getattr(failure, "java_exception", None) is not None
        or getattr(failure, "_origin", None) is not None
    )


def _thrown(java: Any) -> Iterator[str]:
    name = str(java.getClass().getName())
    yield name
    if is_instance_of(SparkContext._gateway, java, "org.apache.spark.SparkThrowable"):
        assert SparkContext._jvm is not None
        yield str(SparkContext._jvm.PythonErrorUtils.getCondition(java) or "")
    if name in _TELL:
        yield from _told_by(str(java.getMessage() or ""))


def _told_by(text: str) -> Iterator[str]:
    if _ENDED.match(text):
        yield STOPPED
    elif head := _HEAD.match(text):
        yield from (head["kind"] or "", head["condition"] or "")
