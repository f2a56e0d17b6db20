"""What a flow reads: a change log, a topic, a folder of files, as a stream, or all of it at once; and tables that these are joined with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ingest.changes import log_view
from ingest.config.flow_inputs import FlowInput
from ingest.config.pipeline_file import Pipeline
from ingest.flows import table_versions
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
        found = history(log, of.key if of else ())
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


def history(log: DataFrame, key: Sequence[str]) -> DataFrame:
    """In: a change log, by its table's columns; the table's key, empty for none. Out: each row as it was, from ``valid_from`` until before ``valid_to``, NULL
    while it is so. Of rows that the first snapshot found ``valid_from`` is NULL: nobody knows since when they were so.
    """
    at = F.col("position").alias("at")
    since = F.when(F.col("origin") != "snapshot", F.col("committed_at")).alias("since")
    images = log.where(F.col("operation").isin("insert", "update", "delete", "read"))
    began = images.where("after IS NOT NULL").select(
        F.col("after").alias("row"), at, since, "committed_at", F.lit(1).alias("sign")
    )
    went = images.where("before IS NOT NULL").select(
        F.col("before").alias("row"), at, since, "committed_at", F.lit(-1).alias("sign")
    )
    if key:
        # Each event of a key ends what was so before. An update's own end and beginning are one event.
        went = (
            went.join(began.select("at", F.lit(True).alias("both")), "at", "left")
            .where("both IS NULL")
            .drop("both")
        )
        same = Window.partitionBy(*[F.col(f"row.{quoted(name)}") for name in key])
    else:
        # Rows that are alike are told apart by their number: the first that goes is the first that came.
        alike = Window.partitionBy("row", "sign").orderBy("at")
        began = began.withColumn("nth", F.row_number().over(alike))
        went = went.withColumn("nth", F.row_number().over(alike))
        same = Window.partitionBy("row", "nth")
    next_ = F.lead("committed_at").over(same.orderBy("at", "sign"))
    states = began.unionByName(went).withColumn("valid_to", next_).where("sign = 1")
    # What ends all rows at once has no commit time where MySQL has not committed it: it was before the next change of the table.
    wiped = log.where(F.col("operation").isin("truncate", "void", "restart"))
    wiped = wiped.select(F.col("position").alias("wiped_at"))
    times = log.where("committed_at IS NOT NULL").select(
        "position", F.col("committed_at").alias("t")
    )
    latest = times.agg(F.max("t").alias("latest"))
    later = wiped.join(times, F.col("position") >= F.col("wiped_at"), "left")
    wipes = later.groupBy("wiped_at").agg(F.min("t").alias("t")).crossJoin(latest)
    wipes = wipes.select("wiped_at", F.coalesce("t", "latest").alias("wiped"))
    told = [F.col(name) for name in states.columns]
    ended_by = states.join(wipes, F.col("wiped_at") > F.col("at"), "left").groupBy(*told)
    both = ended_by.agg(F.min("wiped").alias("wiped"))
    until = F.least("valid_to", "wiped").alias("valid_to")
    return both.select("row.*", F.col("since").alias("valid_from"), until)


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
