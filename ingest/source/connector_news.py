"""What a person is told of a connector while a job runs: each thing that is wrong once, again at growing intervals
while nothing comes, and once that it delivers again. Pure.

A connector that fails, is restarted, says RUNNING and fails again is one trouble, not many: it ends when two looks one
after the other show that records come, and not before. ::

    delivering ──something is wrong──▶ in trouble ──records come──▶ delivering
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

FIRST_REMINDER = 60.0
"""Seconds of a trouble until it is told again; each later reminder takes twice as long as the one before,"""
LONGEST_SILENCE = 3600.0
"""but so many seconds at most."""


@dataclass(frozen=True)
class Look:
    """What one look has shown. ``at``: seconds of a monotonic clock. ``wrong``: a sentence for each thing that is wrong.
    ``runs``: its task says RUNNING, which alone means little. ``streams``: MySQL has a binlog stream of it. ``place``:
    how far its snapshot is, None where none is under way. ``restarts``: how often it was restarted in this trouble.
    """

    at: float
    wrong: tuple[str, ...] = ()
    runs: bool = False
    streams: bool = False
    place: Mapping[str, Any] | None = None
    restarts: int = 0


@dataclass(frozen=True)
class News:
    """What was seen last and what has been told. ``since``: when the trouble began, None while there is none; ``wrong``:
    what was wrong last; ``told``: all that was told in this trouble, without its numbers; ``remind_at``, ``pause``: when it
    is told again, and the pause before that.
    """

    last: Look | None = None
    since: float | None = None
    wrong: str = ""
    told: frozenset[str] = frozenset()
    remind_at: float = 0.0
    pause: float = FIRST_REMINDER


def delivers(before: Look | None, now: Look) -> bool:
    """True when two looks one after the other found nothing wrong, and records come: a binlog stream stood both times, or
    a snapshot has come further. One look is not enough: the server may still list a stream whose client has just died, and
    a task that ends may store a last offset.
    """
    if before is None or before.wrong or now.wrong or not (before.runs and now.runs):
        return False
    further = now.place is not None and now.place != before.place
    return further or (before.streams and now.streams)


def told(news: News, look: Look) -> tuple[News, tuple[str, ...]]:
    """What there is to say after one more look."""
    if delivers(news.last, look):
        if news.since is None:
            return News(look), ()
        return News(look), (
            f"the connector is delivering again, after {span(look.at - news.since)}",
        )
    if news.since is None and not look.wrong:
        return replace(news, last=look), ()
    if news.since is None:
        news = News(since=look.at, remind_at=look.at + FIRST_REMINDER)
    fresh = {_kind(one): one for one in look.wrong if _kind(one) not in news.told}
    wrong = look.wrong[0] if look.wrong else news.wrong
    news = replace(news, last=look, wrong=wrong, told=news.told | fresh.keys())
    if fresh:
        return news, tuple(fresh.values())
    if look.at < news.remind_at:
        return news, ()
    pause = min(news.pause * 2, LONGEST_SILENCE)
    later = replace(news, remind_at=look.at + pause, pause=pause)
    return later, (_reminder(news, look),)


def _reminder(news: News, look: Look) -> str:
    assert news.since is not None
    times = f", restarted {look.restarts} times" if look.restarts > 1 else ""
    return (
        f"the connector has not delivered for {span(look.at - news.since)}{times}: "
        f"{news.wrong.removesuffix('.')}"
    )


def _kind(sentence: str) -> str:
    """A sentence without its numbers: seconds and ports of the same trouble differ from look to look."""
    return re.sub(r"\d+", "#", sentence)


def span(seconds: float) -> str:
    """How long, as a person says it: ``80 s``, ``4 min``, ``3 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
