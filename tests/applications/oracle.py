"""The outside oracle: every row of every table as MySQL says it in SQL, and as delta-rs or Spark reads it."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from deltalake.exceptions import TableNotFoundError

from tests.applications.rows import BYTES, Column, tables
from tests.kills.lab import Lab, LabError
from tests.support import lake

STILL = 20
SHORT_DECIMAL = 38
MOMENTS = ("date", "datetime", "timestamp", "time")


@dataclass
class ApplicationLab(Lab):
    """A laboratory whose tables are all that the database has now."""

    found: dict[str, tuple[Column, ...]] = field(default_factory=dict)

    def look(self) -> None:
        """Ask MySQL anew which tables there are."""
        with closing(self.stack.mysql().admin()) as connection, connection.cursor() as cursor:
            self.found = {table.name: table.columns for table in tables(cursor, self.name)}
        self.tables = tuple(self.found)

    def until_equal(self, seconds: float = 180) -> None:
        """As a laboratory does, and no longer than ``STILL`` seconds after everything is applied and differs."""
        self._differs_since: float | None = None
        super().until_equal(seconds)

    def _settled(self) -> bool:
        if super()._settled():
            return True
        entry = self.entry()
        waits = entry is None or any(gap.is_open for gap in entry.gaps) or not self._published()
        now = time.monotonic()
        self._differs_since = None if waits else self._differs_since or now
        if self._differs_since is not None and now - self._differs_since > STILL:
            raise LabError(f"everything is applied, for {STILL} s")
        return False

    def source_rows(self, table: str) -> Counter[Any]:
        columns = self.found[table]
        asked = ", ".join(_asked(column) for column in columns)
        with closing(self.stack.mysql().admin()) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {asked} FROM `{self.name}`.`{table}`")
            return Counter(
                tuple((c.name, _of_mysql(c, value)) for c, value in zip(columns, row, strict=True))
                for row in cursor.fetchall()
            )

    def lake_rows(self, table: str) -> Counter[Any]:
        try:
            rows = lake.read(self.lake / self.name / table).drop_columns(["_ingest"]).to_pylist()
        except TableNotFoundError:
            return Counter()
        order = [column.name for column in self.found[table]]
        return Counter(
            (
                *((name, _of_lake(row[name]) if name in row else "no column") for name in order),
                *(
                    (name, _of_lake(value))
                    for name, value in row.items()
                    if name not in order and value is not None
                ),
            )
            for row in rows
        )


def _asked(column: Column) -> str:
    name = "`" + column.name.replace("`", "``") + "`"
    if column.kind in MOMENTS:
        return f"CAST({name} AS CHAR)"
    if column.kind == "float":  # its own text has six digits
        return f"{name} + 0E0"
    if column.kind == "bit" and column.precision == 1:
        return f"{name} + 0"
    return name


def _of_mysql(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.kind in ("date", "datetime", "timestamp"):
        if "-00" in value:
            return None  # a zero date, as docs/types.md says
        return date.fromisoformat(value) if column.kind == "date" else datetime.fromisoformat(value)
    if column.kind == "bit" and column.precision == 1:
        return bool(value)
    if isinstance(value, Decimal) and (column.precision or 0) > SHORT_DECIMAL:
        return f"{value:f}"
    if column.kind in BYTES and isinstance(value, str):
        return value.encode()
    if column.kind in ("enum", "set") and isinstance(value, bytes):
        return value.decode()  # a label is a text in the lake, whatever its character set
    return value


def _of_lake(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc).replace(tzinfo=None)
    if isinstance(value, dict) and set(value) == {"srid", "wkb"}:
        return value["srid"].to_bytes(4, "little") + value["wkb"]
    return value
