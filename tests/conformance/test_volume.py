"""A slice of the volume runs (``make soak`` has all): the model and the reader in the driver, short and long histories."""

import os
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ingest.arrow import column_values
from ingest.model import specification
from ingest.model.specification import Change
from tests.conformance import reader
from tests.conformance.volume import Counts, by_model, by_reader, drawn
from tests.support.mutants import Mutant

SEED = int(os.environ.get("INGEST_SEED", "25"))
LANES = {"model": by_model, "reader": by_reader}


def conform(lane, length, many):
    counts = Counts()
    for number in range(many):
        one = drawn(lane, length, SEED, number)
        LANES[lane]([one])
        counts.take(one, len(one.cuts))
    return counts


@pytest.mark.parametrize(("length", "many"), [(20, 100), (2500, 1)])
@pytest.mark.parametrize("lane", LANES)
def test_hostile_histories_conform(lane, length, many):
    assert conform(lane, length, many).operations == length * many


def _milliseconds(original):
    def value(raw, kind, streamed):
        found = original(raw, kind, streamed)
        if not pa.types.is_timestamp(found.type):
            return found
        return pc.floor_temporal(found, 1, "millisecond").cast(found.type)

    return value


def _by_double(original):
    def value(raw, kind, streamed):
        found = original(raw, kind, streamed)
        if kind.delta != "decimal(20,0)" or pa.types.is_null(found.type):
            return found
        return pc.cast(pc.cast(raw, pa.float64(), safe=False), found.type, safe=False)

    return value


def _lines(original):
    """Lines as Python's ``splitlines`` ends them."""

    def value(raw, kind, streamed):
        found = original(raw, kind, streamed)
        if kind.kind.name != "TEXT":
            return found
        first = [text and "\n".join(text.splitlines()) for text in found.to_pylist()]
        return pa.array(first, found.type)

    return value


def _basic_plane(original):
    def value(raw, kind, streamed):
        found = original(raw, kind, streamed)
        if kind.kind.name != "TEXT":
            return found
        return pc.replace_substring_regex(found, "[\\x{10000}-\\x{10ffff}]", "\ufffd")

    return value


def _no_null(original):
    def value(raw, kind, streamed):
        found = original(raw, kind, streamed)
        return pc.fill_null(found, "") if pa.types.is_string(found.type) else found

    return value


def _any_winner(_):
    return lambda rows, key: rows.take(pa.array(_firsts(rows, key)))


def _firsts(rows, key):
    seen = {}
    for at, row in enumerate(rows.select(list(key)).to_pylist()):
        seen.setdefault(repr(row), at)
    return list(seen.values())


BROKEN = [
    Mutant(
        "fractions of a second end at milliseconds", column_values, "value", _milliseconds, conform
    ),
    Mutant(
        "a BIGINT UNSIGNED passes through a double", column_values, "value", _by_double, conform
    ),
    Mutant("a line separator is a new line", column_values, "value", _lines, conform),
    Mutant(
        "characters beyond the basic plane are lost", column_values, "value", _basic_plane, conform
    ),
    Mutant("an empty text is NULL's", column_values, "value", _no_null, conform),
    Mutant("the first change of a key wins", reader, "winners", _any_winner, conform),
]


@pytest.mark.parametrize("mutant", BROKEN, ids=lambda mutant: mutant.what)
def test_what_falsifies_values_in_the_reader_is_noticed(mutant):
    with mutant.in_place(), pytest.raises(AssertionError, match="after batch|at the end"):
        mutant.killed_by("reader", 20, 100)


def test_a_model_that_forgets_the_order_is_noticed():
    original = specification.in_order

    def as_delivered(delivered, snapshot=None) -> list[Change]:
        return original(delivered, snapshot)[::-1]

    with patch.object(specification, "in_order", as_delivered), pytest.raises(AssertionError):
        conform("model", 20, 100)
