"""What a flow reads: a change log, a topic, a folder of files, as a stream, or all of it at once; and tables that these are joined with."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.changes import log_view
from ingest.config.flow_inputs import FlowInput
from ingest.config.pipeline_file import Pipeline
from ingest.flows import row_history, table_versions
from ingest.kafka.record_stream import reader_options
from ingest.lake.delta import change_log_table
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import IngestError
from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.topics import TableId
from ingest.schema.change_log import LogColumns
from ingest.targets.target import live_rows

EVENT_TIME = "event_time"
"""The column that an expression's value comes as."""


def frame(
    session: SparkSession,
    pipeline: Pipeline,
    given: FlowInput,
    *,
    streams: bool = True,
    versions: Mapping[str, int] | None = None,
) -> DataFrame:
    """An input. Columns: of a change log ``schema.change_log``'s, its images as the table's columns are called now; of a topic
    ``key string, value string, topic string, partition int, offset bigint, timestamp timestamp``; of files and tables their own; of a history the
    table's, and ``valid_from``, ``valid_to timestamp``. ``streams``: as a stream, with its watermark; ``versions``: by path, of tables that are to be
    read as they were. Raises :class:`IngestError` where it is not there yet.
    """
    if given.change_log:
        found = _change_log(session, pipeline, given, streams=streams)
    elif given.kafka:
        found = _topic(session, pipeline, given, streams=streams)
    elif given.files:
        found = _files(session, given, streams=streams)
    elif given.table:
        path = pipeline.path(TableId.parse(given.table))
        found = table_at(session, path, (versions or {}).get(path))
    elif given.history:
        path = log_path(pipeline, given)
        of = SparkTable(session, pipeline.path(TableId.parse(given.history))).describe()
        log = _log(session, pipeline, given, (versions or {}).get(path))
        found = row_history.of(log, of.key if of else ())
    else:
        found = _of_mysql(session, pipeline, given)
    return _timed(found, given)


def table_at(session: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """A copy's rows that count, as it is in each batch, or was at a version. Raises :class:`IngestError` where there is none."""
    description = SparkTable(session, path).describe()
    if description is None:
        raise IngestError(
            "E-FLOW-INPUT",
            f"There is no table at {path} yet.",
            remedy="run the pipeline, which copies it; or correct the input's name.",
            may_pass=True,
        )
    held = table_versions.at(session, path, version).where(live_rows(description.target))
    return held.drop(RESERVED_COLUMN)


def _of_mysql(session: SparkSession, pipeline: Pipeline, given: FlowInput) -> DataFrame:
    """By JDBC. The password is not among what Spark shows of a plan."""
    name = given.connection or ""
    ca, server = pipeline.connections[name].ca, pipeline.connections[name].server(name)
    tls = "VERIFY_IDENTITY" if server.tls else "PREFERRED"
    said = f"?connectionTimeZone=UTC&sslMode={tls}" + (
        f"&trustCertificateKeyStoreUrl=file:{ca}&trustCertificateKeyStoreType=PEM" if ca else ""
    )
    return (
        session.read.format("jdbc")
        .option("driver", "com.mysql.cj.jdbc.Driver")
        .option("url", f"jdbc:mysql://{server.host}:{server.port}/{server.database}{said}")
        .option("dbtable", quoted(given.mysql or ""))
        .option("user", server.user)
        .option("password", server.secret)
        .load()
    )


def _timed(found: DataFrame, given: FlowInput) -> DataFrame:
    if given.event_time is None or given.watermark is None:
        return found
    column = given.event_time
    if column not in found.columns:
        found, column = found.withColumn(EVENT_TIME, F.expr(column)), EVENT_TIME
    return found.withWatermark(column, given.watermark)


def log_path(pipeline: Pipeline, given: FlowInput) -> str:
    """Of a change log."""
    return pipeline.change_log_path(TableId.parse(given.logged or ""))


def table_of_log(session: SparkSession, pipeline: Pipeline, given: FlowInput) -> DataFrame:
    """In the shape of a table, by its log: what its columns are called today."""
    return _log(session, pipeline, given, None).where("after IS NOT NULL").select("after.*")


def log_at(session: SparkSession, path: str) -> DataFrame:
    """A change log, by its table's columns today."""
    log = SparkTable(session, path)
    columns = change_log_table.columns_of(log, None)
    return log_view.today(session.read.format("delta").load(path), columns)


def _log(
    session: SparkSession, pipeline: Pipeline, given: FlowInput, version: int | None
) -> DataFrame:
    """All of it at once."""
    log, columns = _found(session, pipeline, given)
    return log_view.today(table_versions.at(session, log.path, version), columns)


def _change_log(
    session: SparkSession, pipeline: Pipeline, given: FlowInput, *, streams: bool
) -> DataFrame:
    log, columns = _found(session, pipeline, given)
    reader = session.readStream if streams else session.read
    if streams:  # old days that go (`change_log_days`) are no change
        reader = reader.option("ignoreDeletes", "true")
    if streams and given.starting == "latest":
        reader = reader.option("startingVersion", "latest")
    if streams and given.at_once:
        reader = reader.option("maxFilesPerTrigger", given.at_once)
    return log_view.today(reader.format("delta").load(log.path), columns)


def _found(
    session: SparkSession, pipeline: Pipeline, given: FlowInput
) -> tuple[SparkTable, LogColumns]:
    log = SparkTable(session, log_path(pipeline, given))
    if not log.exists():
        raise IngestError(
            "E-FLOW-INPUT",
            f"{given.logged} has no change log yet: {log.path} is not there.",
            remedy="`targets: [mirror, change_log]` of the table; the log begins with its first batch after that.",
            may_pass=True,
        )
    return log, change_log_table.columns_of(log, None)


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
