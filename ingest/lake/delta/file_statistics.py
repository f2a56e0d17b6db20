"""What an entry of a Delta log says of its file's values, made true and small.

Readers pass files over by these bounds, so a wrong one hides rows from whoever filters. A column has two bounds that
contain each of its values. What delta-rs (1.6.6) writes is not always so: decimals become doubles or clipped 64-bit
numbers, instants lose what is below a millisecond, and texts stand there whole. Where the values are not known the
bounds are the type's own, and not left out: delta-rs's pyarrow reader takes a bound that is not there for one that no
value meets. Columns by their physical names. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

Action = dict[str, Any]
Columns = Mapping[str, "str | Columns"]
"""A column's Delta type by its physical name, or the fields of a struct."""
Path = tuple[str, ...]
Exact = Mapping[Path, tuple[Decimal, Decimal]]
"""Least and greatest value of a column, as its file itself says."""
Pair = tuple[Any, Any]

TEXT = 32
"""Code points of a text that stand in a log: as many as Spark writes."""

_LAST = "\U0010ffff"
_LAST_MISREAD = "\U000fffff"
"""What delta-rs reads for it where it is written as a pair of surrogates."""
_LONGEST = 8 * TEXT
"""Code points of a bound above texts that begin with the last character of all, as none of :data:`TEXT` is."""

EXACT_DIGITS = 15
"""A decimal of so many digits is the same after it has been a double."""

WHOLE = frozenset({"byte", "short", "integer", "long"})
DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?")
_encoded = json.JSONEncoder(ensure_ascii=False).encode
_ROOMY = Context(prec=400)
_BOUNDS = ("minValues", "maxValues")


@lru_cache(maxsize=4096)
def columns(schema: str) -> Columns:
    """Those of a table, from the schema in its ``metaData`` action."""
    return _fields(json.loads(schema))


@lru_cache(maxsize=4096)
def physical_names(schema: str) -> Mapping[str, str]:
    """Those of a table's columns by the names that they have now."""
    return {one["name"]: _physical(one) for one in json.loads(schema)["fields"]}


def wide(known: Columns) -> frozenset[Path]:
    """Decimals whose bounds only the file itself says exactly."""
    return frozenset(path for path, kind in leaves(known) if _digits(kind) > EXACT_DIGITS)


def true(add: Action, known: Columns, exact: Exact) -> Action:
    """An entry that delta-rs has just written. ``exact``: of the columns in :func:`wide`, as far as they are known."""
    return _with(add, known, exact, _text)


def corrected(add: Action, known: Columns, exact: Exact | None = None) -> Action:
    """An entry of a commit of before, by whomever: what can be trusted is kept, all else is left out.

    Earlier versions of this program wrote characters beyond the basic plane as pairs of surrogates, which delta-rs
    reads as a smaller character where it is of an even plane, and its checkpoints hand that on to all readers.
    """
    return _with(add, known, exact or {}, _text_of_before)


def misread(add: Action, known: Columns) -> bool:
    """True for an entry that Spark (Delta 4.4) wrote and some reader of docs/readers.md would miss rows by: to delta-rs's
    pyarrow a bound that is not there, or a decimal with an exponent, is one that no value meets, and DuckDB and delta-rs
    order a zero with a minus below one without.
    """
    held = json.loads(add.get("stats") or "{}", parse_float=str)
    lows, highs, nulls = (held.get(name) or {} for name in (*_BOUNDS, "nullCount"))
    rows = held.get("numRecords")
    return any(
        _is_misread(kind, _at(path, lows), _at(path, highs), _at(path, nulls), rows)
        for path, kind in leaves(known)
    )


def reread(add: Action, known: Columns) -> Action:
    """Such an entry as every reader reads it. Spark's numbers are exact, and its texts cut and raised."""
    held = read(add.get("stats"))
    lows, highs = (held.get(name) or {} for name in _BOUNDS)
    exact = dict[Path, tuple[Decimal, Decimal]]()
    for path in wide(known):
        low, high = _at(path, lows), _at(path, highs)
        if low is not None and high is not None:
            exact[path] = Decimal(low), Decimal(high)
    return _with(add, known, exact, lambda low, high: (low, high))


def _at(path: Path, said: Any) -> Any:
    for name in path:
        said = said.get(name) if isinstance(said, dict) else None
    return said


def _is_misread(kind: str, low: Any, high: Any, nulls: Any, rows: Any) -> bool:
    if low is None and high is None:
        return kind == "boolean" and nulls is not None and nulls != rows
    if low is None or high is None:
        return True
    if _digits(kind):
        return any("E" in str(one).upper() for one in (low, high))
    if kind in {"float", "double"}:
        return str(float(low)) == "0.0" or str(float(high)) == "-0.0"
    return False


def written(statistics: Mapping[str, Any]) -> str:
    """As JSON, with every digit of a decimal, which a double would round."""
    return _json(statistics)


def read(text: str | None) -> dict[str, Any]:
    """The other way round: numbers with a fraction are decimals. Empty where nothing is said."""
    found: dict[str, Any] = json.loads(text, parse_float=Decimal) if text else {}
    return found


def _with(
    add: Action, known: Columns, exact: Exact, text: Callable[[str, str], Pair | None]
) -> Action:
    if not (said := add.get("stats")):
        return add
    held = read(said)
    lows, highs, nulls = (held.get(name) or {} for name in (*_BOUNDS, "nullCount"))
    low, high = dict[str, Any](), dict[str, Any]()
    _bound((), known, (lows, highs, nulls, held.get("numRecords")), exact, text, (low, high))
    kept = {name: value for name, value in held.items() if name not in _BOUNDS}
    if low:
        kept |= {"minValues": low, "maxValues": high}
    return {**add, "stats": written(kept)}


def _bound(
    above: Path,
    known: Columns,
    said: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any], int | None],
    exact: Exact,
    text: Callable[[str, str], Pair | None],
    into: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    lows, highs, nulls, rows = said
    for name, kind in known.items():
        low, high, empty = lows.get(name), highs.get(name), nulls.get(name)
        if not isinstance(kind, str):
            inner = dict[str, Any](), dict[str, Any]()
            of = [one if isinstance(one, dict) else {} for one in (low, high, empty)]
            _bound((*above, name), kind, (of[0], of[1], of[2], rows), exact, text, inner)
            if inner[0]:
                into[0][name], into[1][name] = inner
            continue
        pair = None
        if low is not None and high is not None:
            pair = exact.get((*above, name)) or _pair(kind, low, high, text)
        if pair is None and (low is not None or (empty is not None and empty != rows)):
            pair = _widest(kind)
        if pair is not None:
            into[0][name], into[1][name] = pair


def _widest(kind: str) -> Pair | None:
    """What contains every value of a type that may be without bounds."""
    if kind == "boolean":
        return False, True
    if found := DECIMAL.fullmatch(kind):
        nines = f"{'9' * int(found[1])}E-{found[2]}"
        return Decimal(f"-{nines}"), Decimal(nines)
    return None


def _pair(kind: str, low: Any, high: Any, text: Callable[[str, str], Pair | None]) -> Pair | None:
    """Bounds of a column of this type that contain every value, from those that were written; None where there are none."""
    found: Pair | None = None
    if kind in WHOLE:
        if type(low) is int and type(high) is int:
            found = low, high
    elif kind in {"float", "double"}:
        found = _floats(low, high)
    elif kind == "boolean":
        if type(low) is bool and type(high) is bool:
            found = low, high
    elif not isinstance(low, str) or not isinstance(high, str):
        found = _decimals(kind, low, high)
    elif kind == "string":
        found = text(low, high)
    elif kind == "date":
        if _DATE.fullmatch(low) and _DATE.fullmatch(high):
            found = low, high
    elif kind in {"timestamp", "timestamp_ntz"}:
        found = _instants(low, high)
    return found


def _floats(low: Any, high: Any) -> Pair | None:
    if not all(type(one) in {int, Decimal} for one in (low, high)):
        return None  # NaN and the infinities are no JSON numbers
    # Some readers order a zero with a minus below one without, some do not.
    return float(low) or -0.0, float(high) or 0.0


def _decimals(kind: str, low: Any, high: Any) -> Pair | None:
    """Of few digits they are what they were before they were doubles."""
    if not 0 < _digits(kind) <= EXACT_DIGITS:
        return None
    if not all(type(one) in {int, Decimal} for one in (low, high)):
        return None
    found = DECIMAL.fullmatch(kind)
    assert found is not None
    step = Decimal(1).scaleb(-int(found[2]))
    least, most = (Decimal(one).quantize(step, context=_ROOMY) for one in (low, high))
    return least, most


def _instants(low: str, high: str) -> Pair | None:
    """Whoever wrote them cut them to milliseconds: the greatest is as late as what it was cut from may have been."""
    least, most = _INSTANT.fullmatch(low), _INSTANT.fullmatch(high)
    if least is None or most is None:
        return None
    fraction = most[2] or ""
    if len(fraction) <= 3:  # milliseconds
        fraction = f"{fraction:0<3}999"
    return low, f"{most[1]}.{fraction}{most[3] or ''}"


def _text(low: str, high: str) -> Pair | None:
    """Cut; the greater one is raised where something was cut off. UTF-8 orders texts as their code points."""
    most = high if len(high) <= TEXT else raised(high[:TEXT]) or _above(high)
    return None if most is None else (low[:TEXT], most)


def _text_of_before(low: str, high: str) -> Pair | None:
    """A wrongly read character is smaller than it was: good for the least value, not for the greatest."""
    place = next((at for at, char in enumerate(high[:TEXT]) if char > "\uffff"), None)
    if place is None:
        return _text(low, high)
    most = raised(high[:place]) or _above(high.replace(_LAST_MISREAD, _LAST))
    return None if most is None else (low[:TEXT], most)


def _above(text: str) -> str | None:
    """A text no less than one that begins with the last character, and than any other that has it in the same places;
    None where there is no short one.
    """
    run = len(text) - len(text.lstrip(_LAST))
    most = _LAST * (run if run == len(text) else run + 1)
    return most if len(most) <= _LONGEST else None


def raised(text: str) -> str | None:
    """The least text of no more characters that is greater than every text that begins with this one; None where
    there is none.
    """
    for end in range(len(text), 0, -1):
        code = ord(text[end - 1]) + 1
        if code == 0xD800:  # surrogates are no characters
            code = 0xE000
        if code <= 0x10FFFF:  # the last character of all
            return text[: end - 1] + chr(code)
    return None


def _fields(struct: Mapping[str, Any]) -> Columns:
    return {_physical(one): _kind(one["type"]) for one in struct["fields"]}


def _physical(field: Mapping[str, Any]) -> str:
    return str(field["metadata"].get("delta.columnMapping.physicalName", field["name"]))


def _kind(kind: Any) -> str | Columns:
    if isinstance(kind, str):
        return kind
    return _fields(kind) if kind["type"] == "struct" else str(kind["type"])


def leaves(known: Columns, above: Path = ()) -> Iterator[tuple[Path, str]]:
    """Columns that are no structs, with their types."""
    for name, kind in known.items():
        if isinstance(kind, str):
            yield (*above, name), kind
        else:
            yield from leaves(kind, (*above, name))


def _digits(kind: str) -> int:
    found = DECIMAL.fullmatch(kind)
    return int(found[1]) if found else 0


def _json(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = (f"{_encoded(k)}:{_json(v)}" for k, v in value.items())
        return "{" + ",".join(inner) + "}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return _encoded(value)
