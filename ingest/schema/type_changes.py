"""What a change of a column's type makes of its values: each stays as it is, or nobody but MySQL can say. Pure.

MySQL converts under the ``sql_mode`` of whoever runs the statement, which no schema record tells: a session that is not strict cuts and
fills where another one refuses. So only what is the same in every session counts as kept.
"""

from __future__ import annotations

from ingest.schema.mysql_types import Column, Kind, column_type, normalised


def keeps_values(old: Column, new: Column, *, grows: bool = False) -> bool:
    """True when a change between two types of one Delta type leaves every value as it is, whatever the
    session's ``sql_mode``. ``grows``: MySQL makes a TEXT a longer one where its letters get more bytes.
    """
    if new.generated and not old.generated:
        return False
    was, now = column_type(old), column_type(new)
    if was.kind is not now.kind and {was.kind, now.kind} not in _ALIKE:
        return False
    if was.digits != now.digits:
        return False
    if old.labels or new.labels:
        return bool(old.labels) and _keeps_labels(now.kind, old, new)
    if now.kind in (Kind.INTEGER, Kind.TRUTH):
        return _holds(old, new)
    if now.kind in _ROUNDED:
        return not _loses_its_sign(old, new) and _places(old) == _places(new)
    if now.kind is Kind.BITS:
        return _octets(old) == _octets(new) and _capacity(old) <= _capacity(new)
    charset = _charset(new) in (_charset(old), "utf8mb4")
    was_name, now_name = normalised(old.type_name), normalised(new.type_name)
    if now_name == "BINARY" and (was_name, old.length) != (now_name, new.length):
        return False  # MySQL pads with zero bytes
    if now_name == "CHAR" and was_name != "CHAR":
        return False  # MySQL cuts spaces off the end
    if _is_sized(old) or _is_sized(new):
        fits = _same_bytes(old, new) or (charset and grows)
        return fits and (was_name, old.length) == (now_name, new.length)
    return charset and (grows or _needs(old, new) <= _capacity(new))


def is_alike(old: Column, new: Column) -> bool:
    """True for two columns of one type, length and character set."""
    return _form(old) == _form(new)


def _form(column: Column) -> tuple[object, ...]:
    name = normalised(column.type_name)
    return (name, column.length, column.scale, column.labels, _charset(column))


def _keeps_labels(kind: Kind, old: Column, new: Column) -> bool:
    """True when whatever the old labels say is the same by the new ones. MySQL writes several labels of a SET in the
    order in which they are declared, so there the old ones have to stand in theirs.
    """
    if not (_same_bytes(old, new) or _is_ascii(old, new)):
        return False
    if kind is not Kind.SET:
        return set(old.labels) <= set(new.labels)
    rest = iter(new.labels)
    return all(label in rest for label in old.labels)


def _same_bytes(old: Column, new: Column) -> bool:
    """True when every text of the one character set has the same bytes in the other."""
    was, now = _charset(old), _charset(new)
    return was == now or (was, now) == ("utf8mb3", "utf8mb4")


def _is_ascii(old: Column, new: Column) -> bool:
    """True for labels that are the same in each character set. Of others MySQL makes '?' where the new one does not have
    them, in a strict session, too; and CONVERT TO leaves them the bytes that they had.
    """
    plain = "".join(old.labels).isascii()
    return plain and "binary" not in (_charset(old), _charset(new))


def _charset(column: Column) -> str | None:
    name = column.charset.lower() if column.charset else None
    return "utf8mb3" if name == "utf8" else name


_ALIKE = ({Kind.INTEGER, Kind.TRUTH}, {Kind.DOUBLE, Kind.ROUGH}, {Kind.FLOAT, Kind.LOST})
"""One type to MySQL, in two of Debezium's forms."""
_ROUNDED = (Kind.FLOAT, Kind.LOST, Kind.DOUBLE, Kind.ROUGH, Kind.DECIMAL, Kind.WIDE_DECIMAL)


def _loses_its_sign(old: Column, new: Column) -> bool:
    """True when negative numbers become 0 where the session lets them."""
    unsigned = normalised(new.type_name).endswith(" UNSIGNED")
    return unsigned and not normalised(old.type_name).endswith(" UNSIGNED")


def _places(column: Column) -> tuple[int | None, int | None]:
    """Digits, and those behind the point. None: a floating-point number that is not rounded to any."""
    if normalised(column.type_name).startswith("DECIMAL"):
        return column.length or 10, column.scale or 0
    return (column.length, column.scale) if column.scale is not None else (None, None)


def _octets(column: Column) -> int:
    return ((column.length or 1) + 7) // 8


def _is_sized(column: Column) -> bool:
    """TEXT(n) and BLOB(n): which type MySQL makes of them depends on the character set."""
    return normalised(column.type_name) in ("TEXT", "BLOB") and column.length is not None


_CAPACITY = {
    "TINYTEXT": 2**8 - 1,
    "TINYBLOB": 2**8 - 1,
    "TEXT": 2**16 - 1,
    "BLOB": 2**16 - 1,
    "MEDIUMTEXT": 2**24 - 1,
    "MEDIUMBLOB": 2**24 - 1,
    "LONGTEXT": 2**32 - 1,
    "LONGBLOB": 2**32 - 1,
    "JSON": 2**32 - 1,
}
"""In bytes, whatever the character set."""


def _capacity(column: Column) -> int:
    """How much a column holds: bytes of the types above, else characters, bytes, bits or fraction digits."""
    return _CAPACITY.get(normalised(column.type_name), column.length or 0)


def _needs(old: Column, new: Column) -> int:
    """How much the new type has to hold for each value of the old one, in what the new one is measured in. No text has more
    characters than bytes.
    """
    was, now = (normalised(one.type_name) in _CAPACITY for one in (old, new))
    if not now or (was and _same_bytes(old, new)):
        return _capacity(old)
    return _capacity(old) * _widest(new)


_WIDEST = {
    **dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"), 4),
    **dict.fromkeys(("utf8mb3", "ujis", "eucjpms"), 3),
    **dict.fromkeys(("ucs2", "big5", "gbk", "gb2312", "sjis", "cp932", "euckr"), 2),
}
"""Bytes of the longest character, in ``SHOW CHARACTER SET``; of all others one."""


def _widest(column: Column) -> int:
    name = _charset(column)
    if name is None:
        return 4 if column_type(column).kind is Kind.TEXT else 1
    return _WIDEST.get(name, 1)


_INTEGERS = ("tinyint", "smallint", "int", "bigint")


_BYTES = {"TINYINT": 1, "SMALLINT": 2, "MEDIUMINT": 3, "INT": 4, "BIGINT": 8}


def _holds(old: Column, new: Column) -> bool:
    """True when an integer type holds every value of another."""
    (was, was_unsigned), (now, now_unsigned) = _integer(old), _integer(new)
    if was_unsigned == now_unsigned:
        return bool(was and now) and was <= now
    return was_unsigned and was < now


def _integer(column: Column) -> tuple[int, bool]:
    name = normalised(column.type_name).replace("BOOLEAN", "TINYINT").replace("BOOL", "TINYINT")
    return _BYTES.get(name.removesuffix(" UNSIGNED"), 0), name.endswith(" UNSIGNED")


def widens(old_delta: str, new_delta: str, old: Column | None, new: Column) -> bool:
    """True when every value of the old Delta type is the same value in the new one."""
    kind = column_type(new).kind
    if old is not None and kind in _ROUNDED and _loses_its_sign(old, new):
        return False
    double = kind in (Kind.DOUBLE, Kind.ROUGH)
    if double and new.scale is not None:
        return False  # DOUBLE(7,2) rounds
    if old_delta in _INTEGERS:
        rank = _INTEGERS.index(old_delta)
        if kind in (Kind.INTEGER, Kind.UNSIGNED_BIGINT):
            if old is not None:
                return _holds(old, new)
            return new_delta in _INTEGERS and rank < _INTEGERS.index(new_delta)
        if kind is Kind.DECIMAL:
            precision, scale = _decimal(new_delta)
            return precision - scale >= (3, 5, 10, 19)[rank]
        return double and rank < _INTEGERS.index("bigint")
    if old_delta.startswith("decimal") and kind is Kind.DECIMAL:
        (p, s), (q, t) = _decimal(old_delta), _decimal(new_delta)
        return t >= s and q - t >= p - s
    return (old_delta, new_delta) in {("float", "double"), ("date", "timestamp_ntz")}


def delta_widens(old: str, new: str) -> bool:
    """True when Delta changes the type without a rewrite, of two of which the new one holds the old.

    The list is Delta's (``TypeWidening.isTypeChangeSupported``; a capability test compares).
    """
    was, now = plain(old), plain(new)
    if was in _INTEGERS and now.startswith("decimal"):
        precision, scale = _decimal(now)
        return precision - scale >= (20 if was == "bigint" else 10)
    return True


def _decimal(delta: str) -> tuple[int, int]:
    precision, _, scale = delta.removeprefix("decimal(").removesuffix(")").partition(",")
    return int(precision), int(scale)


def plain(delta: str) -> str:
    """A Delta type in one spelling."""
    return delta.replace(" ", "").lower()
