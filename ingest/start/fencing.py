"""Putting a new term into every target of a lake, so that a predecessor can commit to none."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.names import (
    INTERNAL_FOLDER,
    Role,
    app_ids,
    log_app_ids,
    manifest_path,
    quarantine_path,
)
from ingest.model.start_facts import StartFacts
from ingest.start import gather_facts


def fence_every_target(spark: SparkSession, pipeline: Pipeline, committer: Committer) -> None:
    """Before anything is decided or written: tables, manifest and quarantine, blind appends included.

    Under every app id that the predecessor may commit under (``names.app_ids``), those of a table in one commit. Raises what may pass: a table
    behind a server that is away is as open to the predecessor as before. One that cannot be read for good stops nobody: it stands
    still, and what we commit there once it is mended carries our term.
    """
    facts = gather_facts.gather(spark, pipeline, {})  # the lake's side alone
    lake = pipeline.lake.path
    read = [one for one in facts.lake if not (one.torn or one.unreadable)]
    there = [one for one in read if one.version is not None]
    paths = {one.name: one.path for one in there}
    own = {Role.MANIFEST: manifest_path(lake), Role.QUARANTINE: quarantine_path(lake)}
    paths |= {f"{INTERNAL_FOLDER}/{role.value}": path for role, path in own.items()}
    tables = {name: SparkTable(spark, path) for name, path in paths.items()}
    versions = {name: table.version() for name, table in tables.items() if table.exists()}
    for name, ids in app_ids(pipeline.name, checkpoint_ids(facts), versions).items():
        committer.fence(tables[name], *sorted(ids))
    for log in facts.logs:
        if log.version is not None and not (log.torn or log.unreadable):
            ids = log_app_ids(pipeline.name, checkpoint_ids(facts), log.name)
            committer.fence(SparkTable(spark, log.path), *sorted(ids))


def checkpoint_ids(facts: StartFacts) -> set[str]:
    """Those that a predecessor may commit under: that of its checkpoint, the manifest's, and that of a batch which was
    torn: it is finished under its own, whatever has become of its checkpoint since.
    """
    known = [facts.checkpoint.id, facts.newest.checkpoint_id if facts.newest else None]
    torn = [one.note.checkpoint_id for one in (*facts.lake, *facts.logs) if one.note]
    return {one for one in (*known, *torn) if one}
