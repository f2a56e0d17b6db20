"""What a question's picture says, as a value: `bench.figures.drawing` draws it, a test holds the SVG against it. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from bench.figures.question import Bars, Question
from bench.figures.results import Result


@dataclass(frozen=True)
class Bar:
    """``text`` stands at its end. ``ours``: what the picture is about; the others are there to compare."""

    label: str
    length: float
    text: str
    ours: bool


@dataclass(frozen=True)
class Group:
    """Bars under a heading, which may be empty."""

    heading: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Picture:
    """``axis``: what a bar's length is."""

    title: str
    answer: str
    axis: str
    groups: tuple[Group, ...]

    @property
    def digest(self) -> str:
        """Of all that it says: an SVG bears it, so that one of other results is known."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def picture(question: Question, found: Result) -> Picture:
    """What a question's results look like."""
    return Picture(
        f"{question.name}: {question.asks}",
        question.answer(found),
        question.axis,
        tuple(_group(question, bars, found) for bars in question.bars),
    )


def _group(question: Question, bars: Bars, found: Result) -> Group:
    case = question.case(bars.case)
    drawn = []
    for who, label in case.contestants.items():
        length = found.of(case.name, who, bars.measure)
        text = f"{question.shown(bars.measure, length)} {question.unit}".rstrip()
        if bars.beside:
            beside = question.shown(bars.beside, found.of(case.name, who, bars.beside))
            text += f" ({beside} {bars.unit})"
        drawn.append(Bar(label, length, text, who in question.ours))
    return Group(bars.heading, tuple(drawn))
