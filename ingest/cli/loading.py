"""The pipeline file of a command, and its lake's keys where all that the command starts finds them."""

from __future__ import annotations

from pathlib import Path

from ingest.config import pipeline_file
from ingest.config.pipeline_file import Pipeline
from ingest.lake.files import object_store


def load(path: Path) -> Pipeline:
    """As ``pipeline_file.load``; raises :class:`IngestError` also where a key of the lake's store is not there."""
    pipeline = pipeline_file.load(path)
    object_store.lend(pipeline.lake)
    return pipeline
