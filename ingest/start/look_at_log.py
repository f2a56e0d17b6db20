"""One change log as a start finds it: how far it is, beside what the manifest says.

A log never goes back (``batch.change_logs``), so little is asked: whether somebody else has changed it, whether it holds more than is
published, and whether it holds less, as a copy of before does. Its version says the last alone not: a fence may have brought an older
copy to the very number. So the batch that its newest commit is of is asked, too.
"""

from __future__ import annotations

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import other_writers, own_commits
from ingest.lake.delta.delta_log import TornCommitError, UnknownLogError
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.files.disk_failure import of_disk
from ingest.model.manifest import LogState
from ingest.model.start_facts import Foreign, Held, LakeFacts
from ingest.schema.change_log import LOG_PROPERTY
from ingest.start.look_at_table import furthest


def look_at_log(
    table: SparkTable, name: str | None, state: LogState | None, pipeline: Pipeline, published: int
) -> LakeFacts | None:
    """None for what is no change log. ``name``: of its source's table, and ``state``, where the manifest knows the log; ``published``:
    the manifest's newest batch.
    """
    if not table.exists():
        return LakeFacts(name, table.path, None) if name else None
    try:
        name = name or table.property_of(LOG_PROPERTY)
        return _found(table, name, state, pipeline, published) if name else None
    except TornCommitError as torn:
        if name is None:
            raise
        return LakeFacts(name, table.path, 0, torn=str(torn))
    except (DeltaError, PySparkException, Py4JJavaError, UnknownLogError) as failure:
        if name is None or of_disk(failure) is not None:
            raise
        words = " ".join(str(failure).split())[:300]
        return LakeFacts(name, table.path, 0, unreadable=words.rstrip("."))


def _found(
    table: SparkTable, name: str, state: LogState | None, pipeline: Pipeline, published: int
) -> LakeFacts:
    log: TableHandle = within_reach(table, pipeline.lake.path) or table
    version = log.version()
    known = state.version if state else own_commits.newest_known(log, published)
    happened = other_writers.since(log, min(known, version))
    left = table.markers() if happened.markers is None else happened.markers
    back: Held | Foreign | None = None
    if state is not None:
        held = own_commits.held(log, version)
        fewer = isinstance(held, Held) and held.batch is not None and held.batch < state.batch
        back = held if version < known or fewer else None
    foreign = back if isinstance(back, Foreign) else happened.foreign
    return LakeFacts(
        name,
        table.path,
        version,
        log.id(),
        furthest(pipeline.name, left),
        happened.note,
        foreign,
        known,
        back=back if isinstance(back, Held) else None,
    )
