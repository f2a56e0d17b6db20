"""Small files of a lake, for commands that need Spark for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.config.pipeline_file import Pipeline
from ingest.job import spark_session
from ingest.model.location import within_reach


@contextmanager
def reached(pipeline: Pipeline, log: Path) -> Iterator[None]:
    """A Spark is begun, and ended, where they are reached through it alone, as in HDFS. ``log``: Spark's own."""
    if within_reach(pipeline.lake.path):
        yield
        return
    session = spark_session.for_pipeline(pipeline, log)
    try:
        yield
    finally:
        spark_session.end(session)
