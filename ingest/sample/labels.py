"""Labels of ENUM and SET. Pure.

A label is what ``values.Value`` is made of: SQL, JSON of the stream, the lake's value, JSON of a snapshot.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache

from ingest.sample.declared import Declared
from ingest.sample.texts import quoted
from ingest.schema import snapshot_select
from ingest.schema.mysql_types import streamed_labels

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def labels_with_a_character_lost(of: Declared) -> Iterator[tuple[str, str, str]]:
    """Labels with a character beyond the basic plane: SQL, then what comes by a snapshot and by the stream. MySQL's
    own CREATE TABLE, from which Debezium has the labels, shows a question mark.
    """
    for label, _ in _every(of):
        if max(label, default="") > "\uffff":
            lost = "".join("?" if one > "\uffff" else one for one in label)
            yield quoted(label), label, lost


def _labels(of: Declared) -> tuple[tuple[str, str], ...]:
    """The others, which are exact."""
    return tuple(one for one in _every(of) if max(one[0], default="") <= "\uffff")


@lru_cache(maxsize=256)
def _every(of: Declared) -> tuple[tuple[str, str], ...]:
    """Each label, and how the stream writes it."""
    streamed = {label: text for text, label in streamed_labels(of.labels)}
    found = []
    for text in of.labels:
        inner = text[1:-1].replace("''", "'")
        label = re.sub(r"(?s)\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), inner)
        found.append((label, streamed.get(label, label)))
    return tuple(found)


def every_label(of: Declared) -> Iterator[tuple[str, str, str, str]]:
    """Each label alone; of a SET none, and all, too."""
    every = _labels(of)
    if of.name == "SET":
        yield _set(of, ())
        yield _set(of, every)
    for one in every:
        yield _set(of, (one,))


def drawn_labels(rng: random.Random, of: Declared) -> tuple[str, str, str, str]:
    """One label; of a SET some, in the order in which they are declared."""
    every = _labels(of)
    if of.name == "ENUM":
        return _set(of, (rng.choice(every),))
    return _set(of, tuple(one for one in every if rng.random() < 0.5))


def _set(of: Declared, labels: tuple[tuple[str, str], ...]) -> tuple[str, str, str, str]:
    shown, streamed = (",".join(one[which] for one in labels) for which in (0, 1))
    mark = snapshot_select.LABEL if of.marked else ""
    return quoted(shown), streamed, shown, mark + shown
