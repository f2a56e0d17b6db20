"""Whether a batch is the next one of a sink that keeps, beside the rows and in the same transaction, how far it is. Pure.

A batch begins where the one before it has ended. So what the sink holds is the batch's beginning, and it is applied; or its end, and it is there
already: the process died between the sink's commit and Spark's. Anything else is not this flow's story, and nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Place:
    """Behind a batch of a checkpoint. ``generation``: of the flow, which counts its checkpoints; ``batch``: -1 before the first; ``ends``: where
    each input ends, as Spark has logged it, a line each.
    """

    checkpoint: str
    generation: int
    batch: int
    ends: str


Act = Literal["apply", "skip", "anew"]
"""Write it; it is there; or write it in place of all that an earlier generation has left."""


def act(held: Place | None, first: Place, end: Place) -> Act | str:
    """What to do with a batch that goes from ``first`` to ``end``. ``held``: by the sink; None where it holds nothing of the flow. Returns an act,
    or, in words, what is there instead.
    """
    if held is None:
        return "it holds nothing of this flow"
    if held == end:
        return "skip"
    if held == first:
        return "apply"
    if held.checkpoint == end.checkpoint:
        here = f"behind batch {held.batch}"
        if held.batch in (first.batch, end.batch):
            here += ", at another place of the inputs"
        return f"it is {here}, and this is batch {end.batch}"
    if held.generation < end.generation:
        return "anew"
    return f"it is behind batch {held.batch} of another checkpoint ({held.checkpoint})"


def lost(held: Place | None, now: Place, logged: int) -> str:
    """Why a flow cannot go on with what the sink holds; empty where it can. ``now``: behind the newest batch that Spark has noted as done;
    ``logged``: the newest that it has planned.
    """
    if held is None:
        return "what it has noted there is gone"
    if held.checkpoint != now.checkpoint:
        if held.generation < now.generation:
            return ""
        return f"another checkpoint has written there ({held.checkpoint})"
    if held.batch > logged:
        return f"its checkpoint is older: it is behind batch {logged}, and that behind {held.batch}"
    if held.batch < now.batch:
        return f"it is older than its checkpoint: it is behind batch {held.batch}, and that behind {now.batch}"
    return ""


def is_act(found: Act | str) -> bool:
    """Whether it is one, and no words."""
    return found in ("apply", "skip", "anew")
