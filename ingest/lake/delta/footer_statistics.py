"""What a log says of a file's values, told by the footer of a Parquet file that Spark has written.

Spark's writer keeps least and greatest value of every column anyway, in the order that readers of a log compare by: numbers by their
size, texts by the bytes of their UTF-8. Delta would look at each row once more for the same. A footer says nothing of texts and bytes of
4 KB or more, of instants in the old form of 12 bytes, nor, to us, of NaN and the infinities. Then nothing is told here, and who asks has
to look at the rows: a column is never left without bounds. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow.parquet as pq

from ingest.lake.delta import file_statistics
from ingest.lake.delta.file_statistics import Action, Columns, Path

_TELLABLE = file_statistics.WHOLE | {
    "float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz",
}  # fmt: skip
"""Beside decimals. Of a list a footer counts what is in it, and not the lists."""

_WITH_NAN = ("float", "double")
_BOUNDS = ("minValues", "maxValues")
_SHIFTED = b"org.apache.spark.legacyDateTime"
"""Stands in a file whose days before 1582 are numbered as Julian ones (`spark.sql.parquet.datetimeRebaseModeInWrite: LEGACY`). Spark puts them
right as it reads values; bounds would be off by up to ten days.
"""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # a count of microseconds has no zone
_ROOMY = Context(prec=400)


@dataclass(frozen=True)
class Wanted:
    """Of which columns a table's log says something: their types, by the physical names. ``bounded``: those with bounds; ``tight``: whether
    an entry says that its bounds are its values' own, as tables with deletion vectors ask for.
    """

    kinds: Mapping[Path, str]
    bounded: frozenset[Path]
    tight: bool


def wanted(stats_schema: str, known: Columns) -> Wanted | None:
    """As Delta has it (its ``statsSchema``, as JSON), for a table of these columns; None where a footer cannot tell of one of them."""
    fields = {one["name"]: one["type"] for one in json.loads(stats_schema)["fields"]}
    counted = list(_paths(fields.get("nullCount")))
    every = dict(file_statistics.leaves(known))
    kinds = {path: every.get(path, "") for path in counted}
    told_apart = len({".".join(path) for path in every}) == len(every)
    if not told_apart or not all(map(_is_tellable, kinds.values())):
        return None
    return Wanted(kinds, frozenset(_paths(fields.get("minValues"))), "tightBounds" in fields)


def told(add: Action, footer: pq.FileMetaData, of: Wanted, known: Columns) -> Action | None:
    """The entry of a file with its statistics, as every reader reads them; None where the footer does not say one of them."""
    if _SHIFTED in (footer.metadata or {}):
        return None
    said: dict[str, Any] = {"numRecords": footer.num_rows}
    exact = dict[Path, tuple[Decimal, Decimal]]()
    chunks = _chunks(footer)
    for path, kind in of.kinds.items():
        found = chunks.get(".".join(path), [])
        nulls = _nulls(found, footer.num_rows)
        if nulls is None:
            return None
        _put(said, ("nullCount", *path), nulls)
        if path not in of.bounded or nulls == footer.num_rows:
            continue
        pair = _pair(kind, found)
        if pair is None:
            return None
        if isinstance(pair[0], Decimal):
            exact[path] = pair
        for name, bound in zip(_BOUNDS, pair, strict=True):
            _put(said, (name, *path), bound)
    if of.tight:
        said["tightBounds"] = True
    return file_statistics.true({**add, "stats": file_statistics.written(said)}, known, exact)


def _chunks(footer: pq.FileMetaData) -> dict[str, list[Any]]:
    """A column's part of each row group, by its name."""
    found = dict[str, list[Any]]()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            found.setdefault(column.path_in_schema, []).append(column)
    return found


def _nulls(chunks: list[Any], rows: int) -> int | None:
    """How many rows have no value; None where that is not said."""
    total = 0
    if sum(one.num_values for one in chunks) != rows:
        return None
    for one in chunks:
        said = one.statistics
        if said is None or not said.has_null_count:
            return None
        total += said.null_count
    return total


def _pair(kind: str, chunks: list[Any]) -> tuple[Any, Any] | None:
    """Least and greatest value of a column that has one, as a log has them; None where that is not said."""
    lows, highs = list[Any](), list[Any]()
    for one in chunks:
        said = one.statistics
        if said.null_count == one.num_values:
            continue
        if not said.has_min_max:
            return None
        if kind.startswith("timestamp") and not _in_microseconds(said):
            return None
        lows.append(said.min_raw)
        highs.append(said.max_raw)
    if kind.startswith("decimal"):
        lows, highs = list(map(_whole, lows)), list(map(_whole, highs))
    try:
        as_said = _form(kind)
        if kind in _WITH_NAN:  # each of them: min() and max() pass over a NaN that is not the first
            lows, highs = list(map(_finite, lows)), list(map(_finite, highs))
        return as_said(min(lows)), as_said(max(highs))
    except (
        ValueError,
        OverflowError,
    ):  # no finite number, no UTF-8, and years that Python has no date of
        return None


def _in_microseconds(said: Any) -> bool:
    return bool(json.loads(said.logical_type.to_json()).get("timeUnit") == "microseconds")


def _form(kind: str) -> Callable[[Any], Any]:
    """How a log has a value of this type, from what stands in a footer."""
    if found := file_statistics.DECIMAL.fullmatch(kind):
        scale = -int(found[2])
        return lambda value: Decimal(value).scaleb(scale, _ROOMY)
    forms: dict[str, Callable[[Any], Any]] = {
        "float": float,
        "double": float,
        "string": bytes.decode,
        "date": lambda value: (date(1970, 1, 1) + timedelta(value)).isoformat(),
        "timestamp": lambda value: f"{_instant(value)}Z",
        "timestamp_ntz": _instant,
    }
    return forms.get(kind, int)


def _whole(value: int | bytes) -> int:
    """A decimal's digits: its bytes are those of a number with a sign, the greatest first."""
    return value if isinstance(value, int) else int.from_bytes(value, "big", signed=True)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def _instant(value: int) -> str:
    """Cut to milliseconds, as Spark has it: ``file_statistics`` makes the greatest later by as much."""
    return (_EPOCH + timedelta(microseconds=value)).isoformat(timespec="milliseconds")


def _put(into: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def _paths(kind: Any, above: Path = ()) -> Iterator[Path]:
    for one in kind["fields"] if kind else ():
        here = (*above, one["name"])
        if isinstance(one["type"], dict):
            yield from _paths(one["type"], here)
        else:
            yield here


def _is_tellable(kind: str) -> bool:
    return kind in _TELLABLE or file_statistics.DECIMAL.fullmatch(kind) is not None
