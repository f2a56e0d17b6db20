"""What a flow reads: a change log, a topic, a folder of files; as a stream, or all of it at once."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.changes import log_view
from ingest.config.flow_settings import FlowInput
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.record_stream import reader_options
from ingest.lake.delta import change_log_table
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import IngestError
from ingest.model.topics import TableId

EVENT_TIME = "event_time"
"""The column that an expression's value comes as."""


def frame(
    session: SparkSession, pipeline: Pipeline, given: FlowInput, *, streams: bool = True
) -> DataFrame:
    """An input. Columns: of a change log ``schema.change_log``'s, its images as the table's columns are called now; of a topic
    ``key string, value string, topic string, partition int, offset bigint, timestamp timestamp``; of files their own.
    ``streams``: as a stream, with its watermark. Raises :class:`IngestError` where it is not there yet.
    """
    if given.change_log:
        found = _change_log(session, pipeline, given, streams=streams)
    elif given.kafka:
        found = _topic(session, pipeline, given, streams=streams)
    else:
        found = _files(session, given, streams=streams)
    return _timed(found, given)


def _timed(found: DataFrame, given: FlowInput) -> DataFrame:
    if given.event_time is None or given.watermark is None:
        return found
    column = given.event_time
    if column not in found.columns:
        found, column = found.withColumn(EVENT_TIME, F.expr(column)), EVENT_TIME
    return found.withWatermark(column, given.watermark)


def log_path(pipeline: Pipeline, given: FlowInput) -> str:
    """Of a change log."""
    return pipeline.change_log_path(TableId.parse(given.change_log or ""))


def _change_log(
    session: SparkSession, pipeline: Pipeline, given: FlowInput, *, streams: bool
) -> DataFrame:
    log = SparkTable(session, log_path(pipeline, given))
    if not log.exists():
        raise IngestError(
            "E-FLOW-INPUT",
            f"{given.change_log} has no change log yet: {log.path} is not there.",
            remedy="`targets: [mirror, change_log]` of the table; the log begins with its first batch after that.",
            may_pass=True,
        )
    columns = change_log_table.columns_of(log, None)
    reader = session.readStream if streams else session.read
    if streams and given.starting == "latest":
        reader = reader.option("startingVersion", "latest")
    if streams and given.at_once:
        reader = reader.option("maxFilesPerTrigger", given.at_once)
    return log_view.today(reader.format("delta").load(log.path), columns)


def _topic(
    session: SparkSession, pipeline: Pipeline, given: FlowInput, *, streams: bool
) -> DataFrame:
    said = {**reader_options(pipeline), "subscribe": given.kafka or ""}
    del said["includeHeaders"]
    if streams:
        said["startingOffsets"] = given.starting
        if given.at_once:
            said["maxOffsetsPerTrigger"] = str(given.at_once)
    reader = session.readStream if streams else session.read
    found = reader.format("kafka").options(**said).load()
    text = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
    return found.select(*text, "topic", "partition", "offset", "timestamp")


def _files(session: SparkSession, given: FlowInput, *, streams: bool) -> DataFrame:
    reader = session.readStream if streams else session.read
    if given.columns:
        reader = reader.schema(given.columns)
    if streams:  # else a file that was changed a week before the newest one would never be read
        reader = reader.option("maxFileAge", "36500d")
    if streams and given.at_once:
        reader = reader.option("maxFilesPerTrigger", given.at_once)
    return reader.format(given.format).load(given.files)
