"""The parts of docs/performance.md that are made of results: the answers, and each question's picture and table. Pure.

Such a part stands between ``<!-- made: NAME -->`` and ``<!-- end -->``; all else in the page is written by people.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bench.figures.question import Case, Column, Question
from bench.figures.results import Result, Run

_PART = re.compile(r"(<!-- made: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

_COMMIT = re.compile(r"\b([0-9a-f]{7})[0-9a-f]{33}")


def with_results(text: str, questions: tuple[Question, ...], found: Mapping[str, Result]) -> str:
    """The page with all its parts made again. Raises ``ValueError`` where one is missing or there twice."""
    parts = {one.name: part(one, found[one.name]) for one in questions}
    parts["answers"] = answers(questions, found)
    there = sorted(name for _, name, _, _ in _PART.findall(text))
    if there != sorted(parts):
        raise ValueError(
            f"the page has parts for {there}, and there are results for {sorted(parts)}"
        )
    return _PART.sub(lambda old: f"{old[1]}{parts[old[2]]}{old[4]}", text)


def answers(questions: tuple[Question, ...], found: Mapping[str, Result]) -> str:
    """The table of all questions."""
    rows = [
        (
            f"[{one.name}](#{one.anchor}) {one.asks}",
            one.answer(found[one.name]),
            f"`bench.{one.cases[0].bench}`",
        )
        for one in questions
    ]
    return _table(("Question", "Answer", "Measured by"), rows)


def part(question: Question, found: Result) -> str:
    """A question's picture, its table, and how each case was measured."""
    several = len(question.cases) > 1
    columns = [one for one in question.columns if _has(question, found, one)]
    rows = [
        (
            *([case.name] if several else []),
            label,
            *(_cell(found.runs[case.name], who, column) for column in columns),
        )
        for case in question.cases
        for who, label in case.contestants.items()
    ]
    first = question.first_columns if several else question.first_columns[1:]
    lines = [
        f"- {case.name + ': ' if several else ''}{measured(case, found.runs[case.name])}\n"
        for case in question.cases
    ]
    picture = f"![{question.asks} {question.answer(found)}](pictures/{question.name}.svg)\n"
    table = _table((*first, *(one.heading for one in columns)), rows)
    return f"{picture}\n{table}\n{''.join(lines)}"


def measured(case: Case, run: Run) -> str:
    """How a case was measured: command, rounds, commit or where its figures were first, notes."""
    counted = set(run.counted.values())
    if len(counted) > 1:
        each = ", ".join(f"{case.contestants[who]} {many}" for who, many in run.counted.items())
        rounds = f"; rounds: {each}"
    else:
        rounds = f"; {many} rounds" if (many := counted.pop()) > 1 else ""
    if run.page:
        since = f"on this page since {run.at} ({run.page})"
    else:
        commit = _COMMIT.sub(r"\1", run.commit)
        since = f"{run.at} at {commit or 'an unknown commit'}"
    return f"`{run.command}`{rounds}; {since}.{' ' + run.note if run.note else ''}"


def _has(question: Question, found: Result, column: Column) -> bool:
    return any(
        column.measure in measures
        for case in question.cases
        for measures in found.runs[case.name].medians.values()
    )


def _cell(run: Run, who: str, column: Column) -> str:
    value = run.medians[who].get(column.measure)
    return "" if value is None else column.shown(value)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head, *others = (
        f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|\n" for row in (heads, *rows)
    )
    return f"{head}|{'---|' * len(heads)}\n{''.join(others)}"
