"""What is said of a batch's jobs in Spark's own UI and event log, which table each is for and what it does."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache

from pyspark import SparkContext

_DESCRIPTION = "spark.job.description"
_MOST = 5


@contextmanager
def described(context: SparkContext, words: str) -> Iterator[None]:
    """Jobs that this thread begins are called so; behind it, as they were before. Nothing where nobody can look, as each word is a call
    of Java's.
    """
    if not _is_seen(context):
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(words)
    try:
        yield
    finally:
        context._jsc.sc().setLocalProperty(_DESCRIPTION, before)


def named(topics: Collection[str]) -> str:
    """The first of them."""
    first = sorted(topics)[:_MOST]
    more = len(topics) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


@lru_cache(maxsize=1)
def _is_seen(context: SparkContext) -> bool:
    """Whether the UI or the event log is switched on, which does not change."""
    conf = context.getConf()
    switches = ("spark.ui.enabled", "spark.eventLog.enabled")
    return any(conf.get(one, "false") == "true" for one in switches)
