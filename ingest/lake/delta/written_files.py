"""Files that a transaction of Delta's writes, with right statistics in their entries.

While it writes, Delta looks at every row for these, which takes a quarter of the time. Parquet's footers say the same, so Delta is told not
to; where a footer does not say all of it, Delta looks after all, and from then on at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import Column

from ingest.lake.delta import file_statistics, footer_statistics
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.delta.spark_transaction import SparkTransaction
from ingest.lake.files.hadoop_files import HadoopFiles

FEW = 16
"""Files whose footers are read one after the other, at some milliseconds each."""

_BY_FOOTERS = {
    "spark.databricks.delta.stats.collect": "false",
    # Of the 12 bytes that Spark writes by default no footer says bounds. delta-rs writes these, too.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

_TEXT_LENGTH = "delta.dataSkippingStringPrefixLength"

_TAIL = 64 * 2**10
"""Bytes at a file's end that mostly hold its footer."""

_LENGTH = 8
"""Bytes behind a footer: how long it is, and Parquet's mark."""


def write(
    session: SparkSession,
    path: str,
    begun: SparkTransaction,
    rows: DataFrame,
    held: TableState,
    most: int,
) -> list[Action] | None:
    """Actions that put files in; None where Spark calls a file otherwise than Delta. ``session``: the table's, which no other thread
    has, and that of ``rows``; ``most``: how many files these come from, so that not many more are written.
    """
    known = held.columns
    wanted = None
    # A table may ask for texts that are cut elsewhere; at 0 it asks for none, as the log would hold its values.
    as_usual = _TEXT_LENGTH not in held.configuration
    if most <= FEW and as_usual and not held.looks_at_rows:
        wanted = footer_statistics.wanted(str(begun.of.snapshot().statsSchema().json()), known)
    if wanted is None:
        return [readable(one, known) for one in _written(begun, rows)]
    with _set(session, _BY_FOOTERS):
        actions = _written(begun, rows)
    files = HadoopFiles(session, path)
    found = list[Action]()
    for action in actions:
        add = action["add"]
        footer = _footer(files, unquote(add["path"]), add["size"])
        if footer is not None and not footer.num_rows:
            continue
        said = footer and footer_statistics.told(add, footer, wanted, known)
        if said is None:
            held.looks_at_rows = True
            return _looked_at(session, begun, actions, held)
        found.append({"add": said})
    return found


def readable(action: Action, known: file_statistics.Columns) -> Action:
    """One with Delta's own statistics, with bounds that every reader takes as they are meant (``read_back``)."""
    if "add" in action and file_statistics.misread(action["add"], known):
        return {"add": file_statistics.reread(action["add"], known)}
    return action


def _written(begun: SparkTransaction, rows: DataFrame) -> list[Action]:
    written = begun.of.writeFiles(rows._jdf)
    return [json.loads(written.apply(at).json()) for at in range(written.size())]


def _looked_at(
    session: SparkSession, begun: SparkTransaction, actions: Sequence[Action], held: TableState
) -> list[Action] | None:
    """The same files with what Delta says of their rows, in a job of its own; a file without rows is left out."""
    entries = begun.seq(map(begun.action, actions))
    jvm: Any = session._jvm
    frame = DataFrame(
        begun.log.createDataFrame(begun.of.snapshot(), entries, False, begun.none), session
    )
    said = Column(jvm.org.apache.spark.sql.functions.to_json(begun.of.statsCollector()))
    file = frame.metadataColumn("_metadata")["file_path"]
    rows = frame.groupBy(file.alias("file")).agg(said.alias("stats")).collect()
    stats = {uri.rpartition("/")[2]: text for uri, text in rows}
    found = list[Action]()
    for action in actions:
        text = stats.pop(action["add"]["path"].rpartition("/")[2], None)
        if text is not None:
            found.append(readable({"add": {**action["add"], "stats": text}}, held.columns))
    return None if stats else found


def _footer(files: HadoopFiles, name: str, size: int) -> pq.FileMetaData | None:
    """None where Parquet's own reader cannot make it out, as one that is encrypted."""
    tail = files.tail(name, max(0, size - _TAIL))
    length = int.from_bytes(tail[-_LENGTH : -_LENGTH // 2], "little") + _LENGTH
    if length > len(tail):
        tail = files.tail(name, max(0, size - length))
    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (OSError, pa.ArrowInvalid):
        return None


@contextmanager
def _set(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            if was is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, was)
