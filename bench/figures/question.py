"""What a question of docs/performance.md is made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.figures.results import Result


@dataclass(frozen=True)
class Case:
    """A run that a question needs. ``asked``: options of the benchmark that make it this case, with their values;
    ``contestants``: those it needs, and how the page calls them; ``base``: the one that all others are held against.
    """

    name: str
    bench: str
    asked: Mapping[str, Any]
    contestants: Mapping[str, str]
    base: str


@dataclass(frozen=True)
class Column:
    """A column of a table. ``ratio``: the figure is a part of something, not an amount; ``digits``: behind the point, as
    many as fit the figure where not given.
    """

    heading: str
    measure: str
    digits: int | None = None
    ratio: bool = False

    def shown(self, value: float) -> str:
        """A figure of it."""
        if self.ratio:
            return ratio(value)
        return amount(value) if self.digits is None else f"{value:,.{self.digits}f}"


@dataclass(frozen=True)
class Bars:
    """A group of bars, one for each contestant of a case. A bar is as long as ``measure``; ``beside`` is said, too, with
    its unit.
    """

    heading: str
    case: str
    measure: str
    beside: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Question:
    """``answer``: the sentence that the page's first table gives; ``axis``: what a bar's length is; ``unit``: of that
    length, empty for a ratio; ``ours``: the contestants that the picture is about.
    """

    name: str
    anchor: str
    asks: str
    answer: Callable[[Result], str]
    cases: tuple[Case, ...]
    columns: tuple[Column, ...]
    axis: str
    bars: tuple[Bars, ...]
    unit: str = ""
    ours: frozenset[str] = frozenset({"ingest"})
    first_columns: tuple[str, str] = ("Case", "Contestant")

    def case(self, name: str) -> Case:
        """By its name."""
        return next(one for one in self.cases if one.name == name)

    def shown(self, measure: str, value: float) -> str:
        """A figure as the table's column of that measure has it."""
        return next(one for one in self.columns if one.measure == measure).shown(value)


def ratio(value: float) -> str:
    """Two decimals, three below a half."""
    return f"{value:.2f}" if value >= 0.5 else f"{value:.3f}"


def amount(value: float) -> str:
    """Four digits, and whole numbers from a thousand on: more than that no median of a few rounds can have."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
