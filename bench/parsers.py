"""How a field that nobody expects is noticed in records: by counting quotes, by Arrow, by msgspec. CPU time.

PYTHONPATH=. .venv/bin/python -m bench.parsers [--records 10000] [--rounds 15]

msgspec is measured where it is installed (``uv pip install msgspec``); ingest does not need it. It makes objects of
Python, which Arrow then has to make columns of (``msgspec, to columns``), or it only looks, and Arrow parses the same
text again (``msgspec, then Arrow``).
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from bench import result_file
from ingest.arrow import json_columns
from ingest.arrow.json_columns import Layout
from ingest.changes.row_images import RowSchema
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.testing.debezium import change_record

_TYPES = {
    "id": "BIGINT",
    "name": "VARCHAR",
    "city": "VARCHAR",
    "amount": "INT",
    "stock": "BIGINT",
    "note": "VARCHAR",
    "flag": "TINYINT",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    values = [_update(number) for number in range(given.records)]
    ways = _ways(values)
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.rounds):  # interleaved: a slow moment is everybody's
        for name, read in ways.items():
            started = time.process_time()
            read()
            took[name].append(time.process_time() - started)
    for name, found in took.items():
        middle, best = statistics.median(found), min(found)
        print(f"{name:<28} median {middle * 1e3:6.1f} ms, best {best * 1e3:6.1f} ms")
    result_file.write(given, "parsers", seconds=took)


def _update(number: int) -> str:
    row = {
        "id": number,
        "name": f"name {number}",
        "city": "Köln" if number % 3 else None,
        "amount": number % 1000,
        "stock": number * 7,
        "note": "x" * 40,
        "flag": number % 2,
    }
    at, gtid = (
        Position(0, 1, 100 + number * 50),
        f"320ee8b1-e592-11f1-acbf-02fc00000001:{number + 1}",
    )
    record = change_record("p.d.t", "u", at, before=row, after={**row, "amount": 5}, gtid=gtid)
    return (record.value or b"").decode()


def _ways(values: list[str]) -> dict[str, Callable[[], object]]:
    columns = tuple(Column(name, kind, 200, None, name != "id") for name, kind in _TYPES.items())
    version = SchemaVersion(TableId("d", "t"), Position(0, 1, 1), "CREATE", columns, ("id",), "")
    layout = Layout(version, RowSchema.of(columns, ("id",), "quarantine"))
    text = json_columns._joined(pa.array(values))
    if json_columns._plain(text, values[0], layout) is None:
        raise SystemExit("these records do not take the fast way: nothing would be measured")
    ways: dict[str, Callable[[], object]] = {
        "counting quotes (ours)": lambda: json_columns._plain(text, values[0], layout),
        "every field by Arrow": lambda: json_columns._strict(text, layout),
    }
    try:
        msgspec = importlib.import_module("msgspec")
    except ModuleNotFoundError:
        return ways
    decoder = msgspec.json.Decoder(_envelope(msgspec, json.loads(values[0])))

    def objects() -> list[Any]:
        return list(decoder.decode_lines(text.to_pybytes()))

    def to_columns() -> list[pa.Array]:
        found = objects()
        images = [[one.before for one in found], [one.after for one in found]]
        return [pa.array([{n: getattr(one, n) for n in _TYPES} for one in some]) for some in images]

    return ways | {
        "msgspec, objects alone": objects,
        "msgspec, to columns": to_columns,
        "msgspec, then Arrow": lambda: (
            objects(),
            json_columns._json(text, layout.needed, "ignore"),
        ),
    }


def _envelope(msgspec: Any, record: dict[str, Any]) -> Any:
    def struct(name: str, fields: list[tuple[str, Any]]) -> Any:
        return msgspec.defstruct(name, fields, forbid_unknown_fields=True)

    kinds = {name: str if kind == "VARCHAR" else int for name, kind in _TYPES.items()}
    image = struct("Image", [(name, kind | None) for name, kind in kinds.items()])
    source = struct(
        "Source",
        [
            (n, int | None if isinstance(v, int) else str | None)
            for n, v in record["source"].items()
        ],
    )
    known = {"before": image | None, "after": image | None, "source": source, "op": str}
    return struct("Envelope", [(name, known.get(name, object)) for name in record])


if __name__ == "__main__":
    main()
