"""A question's results out of what a benchmark has written with ``--json``: nobody types a figure. Pure.

A file is taken only where the benchmark was asked for as the question wants it (tables, rows, changes, …), and with
all its contestants. Ratios are of the medians.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from bench.figures.question import Case, Question
from bench.figures.results import Run

Written = Mapping[str, Any]
"""A benchmark's file, parsed (`bench.result_file`): options by name, ``bench``, ``commit``, ``machine``, ``at``, and what
was found in the form of that benchmark."""
Rounds = dict[str, dict[str, list[float]]]
"""By contestant and measure, a round after the other."""


class Unfit(Exception):
    """A file does not answer the question; the text says why."""


def taken(question: Question, written: Written) -> dict[str, Run]:
    """By case: those that a file is a run of, and their figures. Raises ``Unfit`` where it is none of any."""
    found, why = dict[str, Run](), list[str]()
    for case in question.cases:
        for one in _apart(written):
            if against := _against(case, one):
                why += [f"{case.name}: {reason}" for reason in against]
            else:
                found[case.name] = _run(question, case, one)
    if not found:
        raise Unfit(f"no run of {question.name}: " + "; ".join(why))
    return found


def _apart(written: Written) -> list[Written]:
    """A file of several sizes as one file for each. The largest is what was left, however much."""
    if written.get("bench") != "lanes":
        return [written]
    names = {f"{written['most']:,}": "rest"}
    return [
        {**written, "size": names.get(size, size), "took": took}
        for size, took in written["took"].items()
    ]


def _against(case: Case, written: Written) -> list[str]:
    """Why a file is no run of a case."""
    if case.bench != written.get("bench"):
        return [f"is measured by {case.bench}, not by {written.get('bench')}"]
    other = [
        f"wants {name} {value}, not {written.get(name)}"
        for name, value in case.asked.items()
        if written.get(name) != value
    ]
    if other:
        return other
    found = _ROUNDS[case.bench](written)
    return [f"has no figures of {who}" for who in case.contestants if not found.get(who)]


def _run(question: Question, case: Case, written: Written) -> Run:
    found = _ROUNDS[case.bench](written)
    rounds = {
        who: {name: [_short(one) for one in of] for name, of in found[who].items()}
        for who in case.contestants
    }
    medians = {
        who: {name: _short(median(of)) for name, of in measures.items()}
        for who, measures in rounds.items()
    }
    return Run(
        command=_command(written),
        at=str(written["at"])[:10],
        commit=str(written["commit"]),
        machine=dict(written["machine"]),
        counted={who: max(map(len, of.values())) for who, of in rounds.items()},
        medians={
            who: measures | _ratios(question, case, measures, medians)
            for who, measures in medians.items()
        },
        rounds=rounds,
    )


def _ratios(
    question: Question,
    case: Case,
    measures: Mapping[str, float],
    medians: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    """Those that the question's table shows: ``seconds_of_stock`` and the like."""
    if not case.base:
        return {}
    base = medians[case.base]
    shown = {one.measure for one in question.columns}
    named = {f"{name}_of_{case.base.removesuffix('-limited')}": name for name in measures}
    return {
        wanted: _short(measures[name] / base[name])
        for wanted, name in named.items()
        if wanted in shown
    }


def _short(value: float) -> float:
    """Six digits: a result file is to be read, too."""
    return float(f"{value:.6g}")


_FOUND = {"bench", "commit", "machine", "at", "took", "found", "windows", "again", "firsts"}
_FOUND |= {"beside_young", "size"}
"""What a file says beside the options that were asked for."""


def _command(written: Written) -> str:
    """The command with all of its options."""
    words = [f"python -m bench {written['bench']}"]
    for name, value in written.items():
        if name in _FOUND or value is None or value is False or value == []:
            continue
        several = value if isinstance(value, list) else [] if value is True else [value]
        words += [f"--{name.replace('_', '-')}", *(_word(one) for one in several)]
    return " ".join(words)


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _columns(names: tuple[str, ...], took: Mapping[str, list[list[float]]]) -> Rounds:
    """Rows of figures by contestant, as columns with names."""
    return {
        who: {name: list(of) for name, of in zip(names, zip(*rows, strict=True), strict=True)}
        for who, rows in took.items()
        if rows
    }


def _drains(written: Written) -> Rounds:
    records = written["tables"] * written["rows"] + written["transactions"]
    found = _columns(("seconds", "cpu", "memory"), written["took"])
    return {
        who: {
            "seconds": of["seconds"],
            "cpu_per_million": [one / records * 1e6 for one in of["cpu"]],
            "megabytes": [one / 1e6 for one in of["memory"]],
            "changes_a_second": [records / one for one in of["seconds"]],
        }
        for who, of in found.items()
    }


def _merges(written: Written) -> Rounds:
    return _columns(("seconds", "cpu", "apply"), written["took"])


def _freshness(written: Written) -> Rounds:
    """A window is a round, a pace a contestant."""
    found: Rounds = {}
    for window in written["windows"]:
        ages, batches = window["ages"], window["batches"]
        figures = {
            "each": window["pace"]["each"],
            "inserts": len(ages),
            **{name: ages[min(len(ages) - 1, int(len(ages) * at))] for name, at in _AGES.items()},
            "batch_seconds": median(one["seconds"] for one in batches),
            "batch_changes": median(one["changes"] for one in batches),
        }
        pace = found.setdefault(f"{window['pace']['rate']:g}", {name: [] for name in figures})
        for name, value in figures.items():
            pace[name].append(value)
    return found


_AGES = {"median": 0.5, "at_90": 0.9, "at_99": 0.99, "worst": 1.0}
"""As `bench.freshness` draws them."""


def _end_to_end(written: Written) -> Rounds:
    rows, changes = written["tables"] * written["rows"], written["changes"]
    found = _columns(("snapshot", "stream"), written["took"])
    return {
        who: {
            "rows_a_second": [rows / one for one in of["snapshot"]],
            "changes_a_second": [changes / one for one in of["stream"]],
        }
        for who, of in found.items()
    }


def _layout(written: Written) -> Rounds:
    if written["young"]:
        return {who: {"seconds": took} for who, took in written.get("beside_young", {}).items()}
    return {
        who: {
            "megabytes": [of["bytes"] / written["batches"] / 1e6],
            "files": [of["files"]],
            "scan_spark": [of["scan_spark"] / of["scan_spark_compacted"]],
            "scan_delta_rs": [of["scan_delta_rs"] / of["scan_delta_rs_compacted"]],
        }
        for who, of in written["found"].items()
    }


def _idle(written: Written) -> Rounds:
    return _columns(("seconds", "cpu"), written["took"])


def _lanes(written: Written) -> Rounds:
    found = _columns(("changes", "seconds", "cpu"), written["took"])
    driver = median(found["ingest_driver"]["seconds"])
    return {
        who: {
            **of,
            "changes_a_second": [
                many / one for many, one in zip(of["changes"], of["seconds"], strict=True)
            ],
            "of_driver": [one / driver for one in of["seconds"]],
        }
        for who, of in found.items()
    }


def _starts(written: Written) -> Rounds:
    return {
        who: {"seconds": [one["wall"] for one in of], "cpu": [one["cpu"] for one in of]}
        for who, of in written["took"].items()
    }


_ROUNDS: dict[str, Callable[[Written], Rounds]] = {
    "drains": _drains,
    "merges": _merges,
    "freshness": _freshness,
    "end_to_end": _end_to_end,
    "layout": _layout,
    "idle": _idle,
    "lanes": _lanes,
    "starts": _starts,
}
"""By benchmark: its figures, out of the form that it writes them in."""
