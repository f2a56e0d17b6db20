"""A change log as a history: each row as it was, from when until when. DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ingest.model.names import quoted

_WIPES = ("truncate", "void", "restart")


def of(log: DataFrame, key: Sequence[str]) -> DataFrame:
    """In: a change log, by its table's columns; the table's key, empty for none. Out: each row as it was, from ``valid_from`` until before ``valid_to``, NULL
    while it is so. Of rows that the first snapshot found ``valid_from`` is NULL: nobody knows since when they were so.
    """
    images = log.where(F.col("operation").isin("insert", "update", "delete", "read"))
    wipes = _wipes(log)
    began, went = (
        _events(images, image, sign, wipes) for image, sign in (("after", 1), ("before", -1))
    )
    if key:
        # Each event of a key ends what was so before. An update's own end and beginning are one event.
        both = began.select("at", F.lit(True).alias("both"))
        went = went.join(both, "at", "left").where("both IS NULL").drop("both")
        same = Window.partitionBy(*[F.col(f"row.{quoted(name)}") for name in key])
    else:
        # Rows that are alike are told apart by their number: the first that goes is the first that came. What ends all rows begins the numbers anew:
        # else the first that goes behind it would be one that it had ended.
        alike = Window.partitionBy("row", "sign", "wipes_to_come").orderBy("at")
        began = began.withColumn("nth", F.row_number().over(alike))
        went = went.withColumn("nth", F.row_number().over(alike))
        same = Window.partitionBy("row", "nth", "wipes_to_come")
    next_ = F.lead("committed_at").over(same.orderBy("at", "sign"))
    states = began.unionByName(went).withColumn("next", next_).where("sign = 1")
    return states.select(
        "row.*", F.col("since").alias("valid_from"), F.least("next", "wiped").alias("valid_to")
    )


def _events(images: DataFrame, image: str, sign: int, wipes: DataFrame) -> DataFrame:
    """What began or went with each change. ``wipes_to_come``: how many times all rows end behind it; ``wiped``: when they do first."""
    since = F.when(F.col("origin") != "snapshot", F.col("committed_at")).alias("since")
    found = images.where(F.col(image).isNotNull()).select(
        F.col(image).alias("row"),
        F.col("position").alias("at"),
        *("batch_id", "committed_at"),
        since,
        F.lit(sign).alias("sign"),
    )
    ended = found.crossJoin(F.broadcast(wipes)).withColumn("wipes", F.filter("wipes", _ends))
    many = F.size("wipes").alias("wipes_to_come")
    first = F.array_min(F.transform("wipes", lambda wipe: wipe["t"])).alias("wiped")
    return ended.select(*found.columns, many, first)


def _ends(wipe: Column) -> Column:
    """Whether it ends a row. A snapshot that begins again shares its place with the rows of its first attempt, which came in an earlier batch."""
    at, batch = F.col("at"), F.col("batch_id")
    told_before = F.struct(batch, at) < F.struct(wipe["batch_id"], wipe["at"])
    restarts = (at <= wipe["at"]) & told_before
    return F.when(wipe["restarts"], restarts).otherwise(at < wipe["at"])


def _wipes(log: DataFrame) -> DataFrame:
    """One row: all that ends all rows, ``wipes``, each with its time ``t``. What MySQL has not committed has none: it was before the next change of the table."""
    wiped = log.where(F.col("operation").isin(*_WIPES)).select(
        F.col("position").alias("at"),
        "batch_id",
        (F.col("operation") == "restart").alias("restarts"),
    )
    times = log.where("committed_at IS NOT NULL").select(
        "position", F.col("committed_at").alias("t")
    )
    latest = times.agg(F.max("t").alias("latest"))
    later = wiped.join(times, F.col("position") >= F.col("at"), "left")
    each = later.groupBy("at", "batch_id", "restarts").agg(F.min("t").alias("t"))
    each = each.crossJoin(latest).withColumn("t", F.coalesce("t", "latest")).drop("latest")
    return each.agg(F.collect_list(F.struct("at", "batch_id", "restarts", "t")).alias("wipes"))
