"""Putting a new term into every target of a lake, so that a predecessor can commit to none."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ingest.batch.table_applier import MIRROR
from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.names import INTERNAL_FOLDER, app_id, manifest_path, quarantine_path
from ingest.start import gather_facts


def fence_every_target(spark: SparkSession, pipeline: Pipeline, committer: Committer) -> None:
    """Before anything is decided or written: tables, manifest and quarantine, blind appends included.

    Of every checkpoint id that the predecessor may commit under.
    """
    facts = gather_facts.gather(spark, pipeline, {})  # the lake's side alone
    newest = facts.newest.checkpoint_id if facts.newest else None
    ids = sorted({one for one in (facts.checkpoint.id, newest) if one})
    targets = [
        (one.path, one.name, MIRROR)
        for one in facts.lake
        if one.version is not None
        and not one.torn
        and not one.name.startswith(f"{INTERNAL_FOLDER}/")
    ]
    own = {"manifest": manifest_path, "quarantine": quarantine_path}
    targets += [(path(pipeline.lake.path), INTERNAL_FOLDER, name) for name, path in own.items()]
    for path, name, target in targets:
        table = SparkTable(spark, path)
        if table.exists():
            for checkpoint_id in ids:
                committer.fence(table, app_id(pipeline.name, checkpoint_id, name, target))
