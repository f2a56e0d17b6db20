"""One change log as a start finds it.

A log says by itself what it holds (``start_facts.LogHeld``), and never goes back: whoever appends to it looks at that first
(``batch.change_logs``). So little is asked here: whether it can be read, whether somebody else has changed it, and whether it holds a
commit of a batch that is not published.
"""

from __future__ import annotations

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import change_log_table, other_writers, own_commits
from ingest.lake.delta.delta_log import TornCommitError
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.model.manifest import LogState
from ingest.model.start_facts import LakeFacts
from ingest.start.look_at_table import UNREADABLE, cannot_be_read, furthest


def look_at_log(
    table: SparkTable, name: str, state: LogState | None, pipeline: Pipeline, published: int
) -> LakeFacts:
    """Under the name of its source's table. ``state``: where the manifest knows it; ``published``: the manifest's newest batch."""
    try:
        if not table.exists() or not change_log_table.is_one(table):
            return LakeFacts(name, table.path, None)  # what else lies there is not ours to touch
        return _found(table, name, state, pipeline, published)
    except TornCommitError as torn:
        return LakeFacts(name, table.path, 0, torn=str(torn))
    except UNREADABLE as failure:
        return cannot_be_read(table, name, failure, pipeline.lake.path)


def _found(
    table: SparkTable, name: str, state: LogState | None, pipeline: Pipeline, published: int
) -> LakeFacts:
    log: TableHandle = within_reach(table, pipeline.lake.path) or table
    version = log.version()
    known = min(state.version if state else version, own_commits.newest_known(log, published))
    happened = other_writers.since(log, known)
    left = table.markers() if happened.markers is None else happened.markers
    markers = furthest(pipeline.name, left)
    return LakeFacts(
        name, table.path, version, log.id(), markers, happened.note, happened.foreign, known
    )
