"""All merge engines, each a line."""

from __future__ import annotations

from ingest.lake.engines.delta_rs_engine import DeltaRsEngine
from ingest.lake.engines.engine import Engine
from ingest.lake.engines.spark_engine import SparkEngine

ENGINES: tuple[type[Engine], ...] = (
    DeltaRsEngine,
    SparkEngine,
)
"""The first that can makes a MERGE. The last can make any, also one that another turned out not to be able to make."""
