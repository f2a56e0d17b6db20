"""Which of the lake's tables have rows to lose, as they keep such as the source no longer has."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import IngestError
from ingest.model.topics import TableId


def outlives(session: SparkSession, pipeline: Pipeline, table: TableId) -> bool:
    """Whether a table's copy is one: there is one, and its target keeps them (``Target.outlives``). Of one that cannot be read nobody
    knows better.
    """
    kept_as = {keyed: pipeline.target(table, keyed=keyed) for keyed in (True, False)}
    if not any(target.outlives for target in kept_as.values()):
        return False
    try:
        held = SparkTable(session, pipeline.path(table)).describe()
    except Exception as failure:
        # Whichever of three libraries' errors; what it is the table's next batch says. But where the lake is away, nobody has looked.
        if isinstance(failure, IngestError) and failure.may_pass:
            raise
        return True
    return held is not None and kept_as[not held.multiset].outlives
