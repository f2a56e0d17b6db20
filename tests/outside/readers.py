"""Programs that know nothing of this one read a table by a filter, with files passed over and without.

Run in a process of its own, with the packages of requirements/readers.lock before .venv's on its path: asks are read
from standard input, answers go to standard output, both JSON. An ask is ``{"path", "reader", "predicates"}``; its answer
``{"found", "right"}``, ids a predicate, or ``{"refused"}``, the reader's own words. ``found`` is what the reader finds;
``right`` what the same reader says of the same predicate when it has read the whole table first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

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


def by_duckdb(path: str, predicates: list[Predicate]) -> Iterator[tuple[Ids | None, Ids]]:
    """``delta_scan``; the second time from a table of DuckDB's own."""
    session = _duckdb()
    session.execute("CREATE OR REPLACE TEMP TABLE held AS SELECT * FROM delta_scan(?)", [path])
    session.execute(f"ATTACH '{path}' AS seen (TYPE delta, PIN_SNAPSHOT)")
    for one in predicates:
        where = literals.duckdb(one)
        yield tuple(
            sorted(
                row[0] for row in session.execute(f"SELECT id FROM {t} WHERE {where}").fetchall()
            )
            for t in ("seen", "held")
        )  # type: ignore[misc]
    session.execute("DETACH seen")


def by_datafusion(path: str, predicates: list[Predicate]) -> Iterator[tuple[Ids | None, Ids]]:
    """delta-rs's ``QueryBuilder``."""
    session = QueryBuilder().register("t", DeltaTable(path))

    def ids(sql: str) -> Ids:
        return sorted(pa.table(session.execute(sql).read_all())["id"].to_pylist())

    for one in predicates:
        where = literals.datafusion(one)
        whole = f"SELECT id FROM (SELECT * FROM t LIMIT {_EVERY}) AS held WHERE {where}"
        yield ids(f"SELECT id FROM t WHERE {where}"), ids(whole)


def by_pyarrow(path: str, predicates: list[Predicate]) -> Iterator[tuple[Ids | None, Ids]]:
    """delta-rs's ``to_pyarrow_dataset``, to whose fragments it hands the bounds of their files."""
    dataset = DeltaTable(path).to_pyarrow_dataset()
    held = dataset.to_table()
    for column, kind, op, values in predicates:
        field, of = pc.field(column), dataset.schema.field(column).type
        literals = [pa.scalar(_python(kind, one), of) for one in values]
        where = {
            "=": lambda f=field, v=literals: f == v[0],
            "<": lambda f=field, v=literals: f < v[0],
            ">=": lambda f=field, v=literals: f >= v[0],
            "in": lambda f=field, v=literals, t=of: f.isin(pa.array([o.as_py() for o in v], t)),
            "null": lambda f=field: f.is_null(),
        }[op]()
        right = sorted(held.filter(where)["id"].to_pylist())
        try:
            found = dataset.to_table(columns=["id"], filter=where)
        except pa.ArrowNotImplementedError:
            # Texts in files that a MERGE of delta-rs's wrote are views to pyarrow, which compares none.
            yield None, right
        else:
            yield sorted(found["id"].to_pylist()), right


def by_polars(path: str, predicates: list[Predicate]) -> Iterator[tuple[Ids | None, Ids]]:
    """``scan_delta``; the second time from a frame in memory."""
    scan = pl.scan_delta(path)
    held = scan.collect()
    for column, kind, op, values in predicates:
        of = held.schema[column]
        literals = [pl.lit(_python(kind, one), of) for one in values]
        field = pl.col(column)
        where = {
            "=": lambda f=field, v=literals: f == v[0],
            "<": lambda f=field, v=literals: f < v[0],
            ">=": lambda f=field, v=literals: f >= v[0],
            "in": lambda f=field, k=kind, v=values, t=of: f.is_in(
                pl.Series([_python(k, one) for one in v], dtype=t)
            ),
            "null": lambda f=field: f.is_null(),
        }[op]()
        yield tuple(
            sorted(one["id"].to_list())
            for one in (scan.filter(where).select("id").collect(), held.filter(where))
        )  # type: ignore[misc]


READERS: dict[str, Callable[[str, list[Predicate]], Iterator[tuple[Ids | None, Ids]]]] = {
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
            pairs = list(READERS[ask["reader"]](ask["path"], ask["predicates"]))
        except Exception as failure:  # noqa: BLE001 - whatever a reader raises is its answer
            yield {"refused": f"{type(failure).__name__}: {failure}"}
        else:
            yield {"found": [one for one, _ in pairs], "right": [one for _, one in pairs]}


if __name__ == "__main__":
    print(json.dumps(list(answers(json.load(sys.stdin))), default=str))
