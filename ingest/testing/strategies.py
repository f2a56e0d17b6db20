"""Hypothesis strategies: what ``drawn`` makes of a seed, so that Hypothesis can draw it, show it and shrink it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from ingest.testing import drawn
from ingest.testing.drawn import Draw
from ingest.testing.source import Table


@dataclass(frozen=True)
class History:
    """A table with a history behind it, and sizes of the batches that its log is to be replayed in."""

    table: Table
    batches: Sequence[int]

    def __repr__(self) -> str:
        lines = (f"{one.topic} {(one.value or b'').decode()}" for one in self.table.source.log)
        return "\n  ".join([f"History(batches={self.batches}", *lines]) + ")"


@st.composite
def histories(
    draw: st.DrawFn,
    columns: Mapping[str, str],
    key: Sequence[str] = (),
    *,
    most: int = 20,
    draws: Mapping[str, Draw] | None = None,
    name: str = "d.t",
) -> History:
    """Histories of up to ``most`` statements, in one to four batches. ``columns``, ``key``: as ``Source.table`` takes
    them; ``draws``: as ``drawn.write`` does. A batch costs a second: ``max_examples=5`` and no deadline.
    """
    rng = draw(st.randoms(use_true_random=False))
    table = drawn.table_with_history(rng, columns, key, rng.randint(1, most), draws, name)
    return History(table, drawn.splits(rng, len(table.source.log)))
