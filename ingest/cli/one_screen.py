"""However much there is to say, it is said on one screen: what is alike is told together, and tables are counted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ingest.cli.notices import Notice
from ingest.model.counted import counted
from ingest.observe.pipeline_status import TableProgress

Line = tuple[str, str]
"""A line and its style."""
ROWS = 20
"""Rows of tables at most, where nobody asks for all of them."""
_EACH = 3
"""Notices of one label that are told one by one."""
_NAMED = 60
"""Characters of names in one line; the first stands there however long it is."""
_LONGEST = 160
"""Characters of a cause that is said of several."""
_INDENT = " " * 11


def told(notices: Sequence[Notice], room: int) -> list[Line]:
    """All of them in at most so many lines, if in a line or two for each label it can be done. In order, and the first get what room
    there is: a line each where they are few, then one for each cause, and else one for all.
    """
    labels = [[*of] for _, of in groupby(notices, lambda one: (one.goes, one.label))]
    chosen = [_lines([label]) for label in labels]
    for at, label in enumerate(labels):
        ways = [_lines([[one] for one in label])] if len(label) <= _EACH else []
        for way in (*ways, _lines(_by_cause(label))):
            if sum(map(len, chosen)) - len(chosen[at]) + len(way) <= room:
                chosen[at] = way
                break
    return [line for lines in chosen for line in lines]


def each(notices: Sequence[Notice]) -> list[Line]:
    """All of them one by one, however many there are."""
    return _lines([[one] for one in notices])


def _by_cause(notices: Sequence[Notice]) -> list[list[Notice]]:
    """Those that are told together: what most have first."""
    found = dict[str, list[Notice]]()
    for one in notices:
        found.setdefault(one.kind or one.cause, []).append(one)
    return sorted(found.values(), key=len, reverse=True)


def _lines(groups: Sequence[Sequence[Notice]]) -> list[Line]:
    """A line for each group, and below it what is to be done; said once where it is the same of several in turn."""
    lines = list[Line]()
    said = [_alone(*of) if len(of) == 1 else _together(of) for of in groups]
    for at, (line, then, style) in enumerate(said):
        lines.append((line, style))
        if then and (at + 1 == len(said) or said[at + 1][1] != then):
            lines.append((f"{_INDENT}{then}", "" if then.startswith("what to do") else style))
    return [(" ".join(line.splitlines()), style) for line, style in lines]


def _alone(one: Notice) -> tuple[str, str, str]:
    return f"{one.label:<11}{one.alone}", one.then, one.style


def _together(notices: Sequence[Notice]) -> tuple[str, str, str]:
    """Line, what stands below it, and style, of several."""
    causes = _by_cause(notices)
    first = causes[0][0]
    alike = len({one.cause for one in causes[0]}) == 1
    cause = _short(first.cause if alike else first.kind)
    names = list(dict.fromkeys(one.name for one in notices))
    what = "flow" if first.label == "flow" else "table"
    what += "s" if len(names) > 1 else ""
    amount = f", {sum(one.amount for one in notices):,} {first.unit}" if first.unit else ""
    state = f", {first.state}" if first.state else ""
    more = len(causes) - 1
    others = f", and {more:,} other cause{'s' if more > 1 else ''}" if more else ""
    line = (
        f"{first.label:<11}{len(names):,} {what} ({_named(names)}){amount}{state}: {cause}{others}"
    )
    then = first.together or first.then
    if len({one.together or one.then for one in notices}) > 1:
        then = f"{then}; --all says it of the others" if then else "--all says what to do"
    return line, then, first.style


def _named(names: Sequence[str]) -> str:
    """The first of them, and how many there are more."""
    shown = [*names[:_EACH]]
    while len(shown) > 1 and len(", ".join(shown)) > _NAMED:
        shown.pop()
    more = len(names) - len(shown)
    said = ", ".join(shown)
    return f"{said} and {more:,} more" if more else said


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def rows(tables: Sequence[TableProgress], most: int = ROWS) -> tuple[list[TableProgress], str]:
    """Those to be shown, and what is to be said of the others. Of many, those that are behind, the furthest first, and then the first by name."""
    if len(tables) <= most:
        return [*tables], ""
    order = sorted(tables, key=lambda one: (not _is_behind(one), -one.pending))
    left = order[most:]
    waiting = sum(map(_is_behind, left))
    those = f"{waiting:,} of them are behind" if waiting else "nothing of which waits"
    return order[:most], f"and {counted(len(left), 'table')} more, {those}; --all lists them"


def _is_behind(table: TableProgress) -> bool:
    return table.pending > 0 or table.version < 0
