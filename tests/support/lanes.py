"""Every way in which a batch's plain changes are read and merged: the pipeline file's settings, and what the manifest calls it."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

LANES = {
    "driver": ({"lane": "driver"}, "driver"),
    "tasks, rows to the driver": ({"lane": "spark"}, "tasks"),
    "driver, merged by Spark": ({"lane": "driver", "merge_engine": "spark"}, "driver"),
    "tasks, rows kept in Spark": ({"lane": "spark", "merge_engine": "spark"}, "tasks"),
    "tasks, rows that Spark folds": ({"lane": "spark", "merge_engine": "spark"}, "tasks"),
    "columns": ({"lane": "columns", "merge_engine": "spark"}, "columns"),
}


def each(names: Iterable[str] = LANES, *, long: Sequence[str] = ()) -> list[Any]:
    """Parameters of a test that is run in each of these lanes; in those of ``long`` by `make soak` alone, as others show nearly the same."""
    marks = {name: [pytest.mark.long] if name in long else [] for name in names}
    return [pytest.param(name, marks=found) for name, found in marks.items()]
