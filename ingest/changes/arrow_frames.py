"""DataFrames whose rows Python makes as Arrow's batches, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

Mapping = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def frame_of(rows: pa.Table, session: SparkSession) -> DataFrame:
    """Rows of the driver's. ``createDataFrame`` alone takes a moment without a time zone for one of the session's
    (``spark.sql.timestampType``), which an append to a column of ``timestamp_ntz`` refuses.
    """
    return session.createDataFrame(rows, from_arrow_schema(rows.schema))


def mapped(frame: DataFrame, read: Mapping, schema: StructType | str) -> DataFrame:
    """What ``DataFrame.mapInArrow`` makes, whose Python half refuses to begin without pandas, though nothing of it needs that
    (Spark 4.2): it would be loaded into the driver and each worker, at 40 MB and half a second each.
    """
    function = UserDefinedFunction(
        read, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = function(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
