"""What one of Spark's tasks does to read its share of a batch: fetch, decode, fold, and hand over.

It runs in a Python worker of an executor. Nothing of the driver is known here but what :class:`TaskJob` has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

import pyarrow as pa

from ingest.arrow import freed_memory, pieces
from ingest.arrow.pieces import Before, Piece
from ingest.arrow.winning_rows import between, key_range, span, winners
from ingest.batch import own_version
from ingest.batch.shares import Share
from ingest.kafka.fetch import FetchError
from ingest.kafka.ports import RecordSource
from ingest.model.epochs import Epoch
from ingest.model.failpoints import reached
from ingest.model.manifest import Place

SCHEMA = pa.schema(
    [
        ("share", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("until", pa.int64()),
        ("odd", pa.string()),
        ("start", pa.int64()),
        ("layout", pa.int32()),
        ("facts", pa.string()),
        ("spans", pa.string()),
        ("bytes", pa.int64()),
        ("least", pa.int64()),
        ("greatest", pa.int64()),
        ("types", pa.binary()),
        ("rows", pa.binary()),
    ]
)
"""What comes of a share: a row for each piece, in order, and behind them one for each partition: ``until`` where it was read, and
``odd`` why the record there is not for this lane, if so.

Of a piece there is its ``start`` (``pieces.Piece``), the number of its layout, its ``facts`` in JSON, and ``rows``, a stream of
Arrow's of ``bytes``: of each key the newest between two barriers (DDL or TRUNCATE). ``spans``: of what stands between these, the
first and the last position; ``least``, ``greatest``: of their keys' first column, where that is a whole number; ``types``: Arrow's
schema of the rows.
"""

NOT_FETCHED = "not fetched: "
"""Before librdkafka's words, in ``odd``."""


@dataclass(frozen=True)
class TaskJob:
    """Of one batch, by its number. ``source``: brings its records; ``befores``: by topic; ``most``: bytes of rows after which a
    task takes no more; None: it takes all. ``keeps``: what comes of it is kept in Spark, which may have a share read twice and use either:
    both have to be the same, so nothing may depend on what Kafka gives when.
    """

    batch: int
    source: RecordSource
    befores: Mapping[str, Before]
    epochs: Sequence[Epoch]
    shares: Sequence[Share]
    most: int | None
    keeps: bool = False


def read(job: TaskJob, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Shares, by their numbers, which are the first column. Out: :data:`SCHEMA`."""
    for some in numbers:
        for number in some.column(0).to_pylist():
            yield from _share(job, number)


def probe(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What runs here, as JSON. That it can be said means that what the tasks import is there."""
    for _ in numbers:
        yield pa.record_batch({"version": [json.dumps(own_version.held())]})


def _share(job: TaskJob, number: int) -> Iterator[pa.RecordBatch]:
    share, enough, size = job.shares[number], Event(), 0
    until = {place: start for place, (start, _) in share.ranges.items()}
    odd: dict[Place, str] = {}
    try:
        for records in job.source(share.ranges, enough):
            for place, some in records.items():
                if place in odd:
                    continue
                if not some.num_rows:
                    until[place] = share.ranges[place][1]
                    continue
                before = job.befores[place[0]]
                found = pieces.read(place, some, before, job.epochs)
                until[place] = some["offset"][-1].as_py() + 1
                if found.odd is not None:
                    until[place], odd[place] = found.odd.offset, found.odd.why
                for piece in found.pieces:
                    row = _folded(piece, before)
                    size += row["bytes"]
                    yield _row(number, place, **row)
            if job.most is not None and size >= job.most:
                enough.set()
    except FetchError as failure:
        if job.keeps:
            raise
        odd = dict.fromkeys(share.ranges, f"{NOT_FETCHED}{failure}")
    if size >= freed_memory.LARGE:
        freed_memory.give_back()  # a worker lives on, and beside it the driver, Java and other workers
    reached("share_read", job.batch)
    for place, end in until.items():
        yield _row(number, place, until=end, odd=odd.get(place))


def _folded(piece: Piece, before: Before) -> dict[str, Any]:
    """A change whose key has a newer one in the same step would be thrown away in the driver: it does not travel, unless the table's change
    log wants it.
    """
    key = before.layouts.each[piece.layout].version.key
    barriers = sorted({*piece.truncates, *before.barriers})
    parts = between(piece.rows, barriers)
    if not before.logs:
        parts = [winners(part, key) for part in parts]
    spans = [[str(end) for end in span(part)] for part in parts]
    rows = pa.concat_tables(parts) if parts else piece.rows.slice(0, 0)
    keys = key_range(rows, key) or (None, None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return {
        "start": piece.start,
        "layout": piece.layout,
        "facts": json.dumps(piece.facts),
        "spans": json.dumps(spans),
        "bytes": rows.nbytes,
        "least": keys[0],
        "greatest": keys[1],
        "types": rows.schema.serialize(),
        "rows": sink.getvalue(),
    }


def _row(share: int, place: Place, **said: Any) -> pa.RecordBatch:
    held = {"share": share, "topic": place[0], "partition": place[1], **said}
    arrays = [_alone(held.get(field.name), field.type) for field in SCHEMA]
    return pa.record_batch(arrays, schema=SCHEMA)


def _alone(value: Any, kind: pa.DataType) -> pa.Array:
    """A column of one value; a buffer is not copied."""
    if not isinstance(value, pa.Buffer):
        return pa.array([value], kind)
    ends = pa.array([0, value.size], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(kind, 1, [None, ends, value])
