"""Dates and times at the ends of every calendar, each with neighbours. Pure."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  a wall clock, as DATETIME is

DATES: tuple[date, ...] = (
    date(1, 1, 1),
    date(1, 12, 31),
    date(99, 12, 31),
    date(999, 12, 31),
    date(1000, 1, 1),
    date(1000, 2, 28),
    date(1500, 3, 1),
    date(1582, 10, 4),
    date(1582, 10, 5),
    date(1582, 10, 10),
    date(1582, 10, 14),
    date(1582, 10, 15),
    date(1600, 2, 29),
    date(1752, 9, 3),
    date(1899, 12, 31),
    date(1900, 1, 1),
    date(1900, 3, 1),
    date(1969, 12, 31),
    date(1970, 1, 1),
    date(1970, 1, 2),
    date(2000, 2, 29),
    date(2001, 9, 9),
    date(2024, 2, 29),
    date(2038, 1, 19),
    date(2038, 1, 20),
    date(2106, 2, 7),
    date(2262, 4, 12),
    date(9999, 12, 30),
    date(9999, 12, 31),
)
MOMENTS: tuple[datetime, ...] = tuple(
    datetime.fromisoformat(text)
    for text in (
        "0001-01-01T00:00:00.000000",
        "0001-01-01T00:00:00.000001",
        "0099-01-01T00:00:00.000001",
        "1000-01-01T00:00:00.000000",
        "1582-10-04T23:59:59.999999",
        "1582-10-15T00:00:00.000000",
        "1677-09-21T00:12:43.145224",
        "1883-11-18T12:03:58.000000",
        "1899-12-31T23:59:59.999999",
        "1969-12-31T23:59:59.999999",
        "1970-01-01T00:00:00.000000",
        "1970-01-01T00:00:00.000001",
        "1970-01-01T00:00:01.000000",
        "2001-09-09T01:46:40.000000",
        "2024-02-29T01:02:03.123455",
        "2024-02-29T01:02:03.123456",
        "2024-02-29T01:02:03.123789",
        "2024-02-29T01:02:03.500000",
        "2024-03-31T02:30:00.000000",
        "2024-10-27T02:30:00.999999",
        "2016-12-31T23:59:59.999999",
        "2038-01-19T03:14:07.000000",
        "2038-01-19T03:14:07.999999",
        "2038-01-19T03:14:08.000000",
        "2262-04-11T23:47:16.854776",
        "9999-12-31T23:59:59.000000",
        "9999-12-31T23:59:59.999999",
    )
)

_GAP = (datetime(1582, 10, 5), datetime(1582, 10, 15))  # noqa: DTZ001  a wall clock, as DATETIME is
LAST_TIMESTAMP = datetime(2038, 1, 19, 3, 14, 7, 999999)  # noqa: DTZ001  a wall clock, as DATETIME is
_SECOND = 1_000_000
LONGEST = (838 * 3600 + 59 * 60 + 59) * _SECOND
"""Of TIME, in microseconds."""

TIMES: tuple[int, ...] = tuple(
    sign * micros
    for micros in (
        0,
        1,
        10_000,
        999_999,
        _SECOND,
        59 * _SECOND + 999_999,
        3600 * _SECOND - 1,
        86_399_999_999,
        86_400 * _SECOND,
        90_000 * _SECOND,
        100 * 3600 * _SECOND - 1,
        LONGEST - 1,
        LONGEST,
    )
    for sign in ((1, -1) if micros else (1,))
)
"""In microseconds."""


def in_the_gap(moment: datetime) -> bool:
    """True within the ten days that Gregory's calendar left out."""
    return _GAP[0] <= moment < _GAP[1]


def cut(micros: int, digits: int) -> int:
    """Microseconds with so many fraction digits, towards zero, so that MySQL has nothing to round."""
    unit = 10 ** (6 - digits)
    size: int = abs(micros) // unit * unit
    return size if micros >= 0 else -size


def micros_of(moment: datetime) -> int:
    """Microseconds from 1970-01-01 00:00:00 on the same clock."""
    return (moment.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)


def drawn_moment(rng: random.Random, digits: int, *, instant: bool = False) -> datetime:
    """With so many fraction digits. ``instant``: one that a TIMESTAMP can hold, else one that a DATETIME can, and
    that a snapshot brings as it is.
    """
    if rng.random() < 0.7:
        found = rng.choice(MOMENTS)
    else:
        found = datetime(1, 1, 1) + timedelta(  # noqa: DTZ001  a wall clock, as DATETIME is
            days=rng.randrange(3_652_059), microseconds=rng.randrange(86_400 * _SECOND)
        )
    if rng.random() < 0.3:  # a neighbour in the last digit that there is
        step = timedelta(microseconds=rng.choice((-1, 1)) * 10 ** (6 - digits))
        if timedelta(days=1) < found - datetime.min and found < datetime(9999, 12, 31):  # noqa: DTZ001,DTZ901
            found += step
    found = found.replace(microsecond=cut(found.microsecond, digits))
    if instant:
        return found if fits_timestamp(found) else _instant(rng, digits)
    return found if not in_the_gap(found) else found.replace(day=15)


def fits_timestamp(moment: datetime) -> bool:
    """True where a TIMESTAMP can hold it, in UTC."""
    return moment.replace(microsecond=0) > EPOCH and moment <= LAST_TIMESTAMP


def _instant(rng: random.Random, digits: int) -> datetime:
    micros = rng.randrange(_SECOND, 2**31 * _SECOND)
    found = EPOCH + timedelta(microseconds=cut(micros, digits))
    return min(found, LAST_TIMESTAMP.replace(microsecond=0))


def instant(moment: datetime) -> datetime:
    """The same clock's reading, taken in UTC."""
    return moment.replace(tzinfo=timezone.utc)


def time_text(micros: int, digits: int) -> str:
    """A TIME as MySQL prints it."""
    size = abs(micros)
    seconds, rest = divmod(size, _SECOND)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{rest:06d}"[: digits + 1] if digits else "")
