"""DataFrames that several jobs read: computed once, and cut off from how they came about.

Not ``persist``: Spark compares each later plan with every cached one, node by node, and analyses a plan
from its root on. A batch of many tables has as many cached frames as it has steps, so both would grow
with their square. A local checkpoint is a leaf to every later plan. An executor that is lost takes its part
along; the batch then fails and is done again, which is idempotent.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def keep(frame: DataFrame) -> DataFrame:
    """The same rows, computed when they are first asked for."""
    return frame.localCheckpoint(eager=False)


def free(frame: DataFrame) -> None:
    """Give back what a frame of :func:`keep` holds; it cannot be read afterwards."""
    plan: Any = frame._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)
