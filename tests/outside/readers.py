"""Programs that know nothing of this one read a table by a filter, with files passed over and without.

Run in a process of its own, with the packages of requirements/readers.lock before .venv's on its path: asks are read
from standard input, answers go to standard output, both JSON. An ask is ``{"path", "reader", "predicates"}``; its answer
``{"found", "right"}``, ids a predicate, or ``{"refused"}``, the reader's own words. ``found`` is what the reader finds;
``right`` what the same reader says of the same predicate when it has read the whole table first. An ask with ``"torn"``
is answered by ``{"answered"}``: whether the reader has an answer at all, a predicate. One with ``"files"``, of DuckDB
alone, by ``{"files"}``: rows that it reads of each file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from tests.outside import literals
from tests.outside.literals import Predicate

Ids = list[int]

_EVERY = 2**62
"""As a LIMIT: all rows, and no filter is moved to before it."""


@dataclass(frozen=True)
class Opened:
    """``found``: by a filter, None where the reader compares no such values; ``right``: once the whole table is read."""

    found: Callable[[Predicate], Ids | None]
    right: Callable[[Predicate], Ids]


def by_duckdb(path: str) -> Opened:
    """``delta_scan``; the second time from a table of DuckDB's own."""
    session = _duckdb()
    session.execute(f"ATTACH '{path}' AS seen (TYPE delta, PIN_SNAPSHOT)")

    @cache
    def held() -> str:
        session.execute("CREATE TEMP TABLE held AS SELECT * FROM delta_scan(?)", [path])
        return "held"

    def ids(table: str, one: Predicate) -> Ids:
        sql = f"SELECT id FROM {table} WHERE {literals.duckdb(one)}"
        return sorted(row[0] for row in session.execute(sql).fetchall())

    return Opened(lambda one: ids("seen", one), lambda one: ids(held(), one))


def by_datafusion(path: str) -> Opened:
    """delta-rs's ``QueryBuilder``."""
    session = QueryBuilder().register("t", DeltaTable(path))

    def ids(table: str, one: Predicate) -> Ids:
        sql = f"SELECT id FROM {table} WHERE {literals.datafusion(one)}"
        return sorted(pa.table(session.execute(sql).read_all())["id"].to_pylist())

    whole = f"(SELECT * FROM t LIMIT {_EVERY}) AS held"
    return Opened(lambda one: ids("t", one), lambda one: ids(whole, one))


def by_pyarrow(path: str) -> Opened:
    """delta-rs's ``to_pyarrow_dataset``, to whose fragments it hands the bounds of their files."""
    dataset = DeltaTable(path).to_pyarrow_dataset()
    held = cache(dataset.to_table)

    def where(one: Predicate) -> pc.Expression:
        column, kind, op, values = one
        field, of = pc.field(column), dataset.schema.field(column).type
        literals = [pa.scalar(_python(kind, value), of) for value in values]
        return {
            "=": lambda: field == literals[0],
            "<": lambda: field < literals[0],
            ">=": lambda: field >= literals[0],
            "in": lambda: field.isin(pa.array([value.as_py() for value in literals], of)),
            "null": field.is_null,
        }[op]()

    def found(one: Predicate) -> Ids | None:
        try:
            return sorted(dataset.to_table(columns=["id"], filter=where(one))["id"].to_pylist())
        except pa.ArrowNotImplementedError:
            # Texts in files that a MERGE of delta-rs's wrote are views to pyarrow, which compares none.
            return None

    return Opened(found, lambda one: sorted(held().filter(where(one))["id"].to_pylist()))


def by_polars(path: str) -> Opened:
    """``scan_delta``; the second time from a frame in memory."""
    scan = pl.scan_delta(path)
    schema, held = scan.collect_schema(), cache(scan.collect)

    def where(one: Predicate) -> pl.Expr:
        column, kind, op, values = one
        of, field = schema[column], pl.col(column)
        literals = [pl.lit(_python(kind, value), of) for value in values]
        return {
            "=": lambda: field == literals[0],
            "<": lambda: field < literals[0],
            ">=": lambda: field >= literals[0],
            "in": lambda: field.is_in(pl.Series([_python(kind, v) for v in values], dtype=of)),
            "null": field.is_null,
        }[op]()

    return Opened(
        lambda one: sorted(scan.filter(where(one)).select("id").collect()["id"].to_list()),
        lambda one: sorted(held().filter(where(one))["id"].to_list()),
    )


READERS: dict[str, Callable[[str], Opened]] = {
    "duckdb": by_duckdb,
    "datafusion": by_datafusion,
    "pyarrow": by_pyarrow,
    "polars": by_polars,
}


def _duckdb() -> duckdb.DuckDBPyConnection:
    from duckdb_extensions import import_extension

    import_extension("delta")
    session = duckdb.connect()
    session.execute("LOAD delta; SET TimeZone = 'UTC'")
    return session


def _python(kind: str, value: str) -> Any:
    if kind == "string":
        return value
    if kind == "binary":
        return bytes.fromhex(value)
    if kind == "boolean":
        return value == "true"
    if kind in {"float", "double"}:
        return float(value)
    if kind == "date":
        return date.fromisoformat(value)
    if kind in {"timestamp", "timestamp_ntz"}:
        zone = timezone.utc if kind == "timestamp" else None
        return datetime.fromisoformat(value).replace(tzinfo=zone)
    return Decimal(value) if kind.startswith("decimal") else int(value)


def answers(asks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One an ask."""
    for ask in asks:
        try:
            if ask.get("files"):
                yield {"files": _files(ask["path"])}
                continue
            opened, predicates = READERS[ask["reader"]](ask["path"]), ask["predicates"]
            if ask.get("torn"):
                yield {"answered": [_answered(opened, one) for one in predicates]}
                continue
            pairs = [(opened.found(one), opened.right(one)) for one in predicates]
        except Exception as failure:  # noqa: BLE001 - whatever a reader raises is its answer
            yield {"refused": f"{type(failure).__name__}: {failure}"}
        else:
            yield {"found": [one for one, _ in pairs], "right": [one for _, one in pairs]}


def _files(path: str) -> dict[str, int]:
    sql = "SELECT filename, count(*) FROM delta_scan(?, filename = true) GROUP BY filename"
    root = Path(path).resolve()
    return {
        str(Path(unquote(name.removeprefix("file://"))).resolve().relative_to(root)): rows
        for name, rows in _duckdb().execute(sql, [path]).fetchall()
    }


def _answered(opened: Opened, one: Predicate) -> bool:
    try:
        return opened.found(one) is not None
    except Exception:  # noqa: BLE001 - of a file that is torn, each reader says it in its own way
        return False


if __name__ == "__main__":
    print(json.dumps(list(answers(json.load(sys.stdin))), default=str), flush=True)
    os._exit(
        0
    )  # threads of DuckDB and Polars may still run, and end a process that takes itself apart by SIGABRT
