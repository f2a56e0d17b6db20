"""Whether a flow can go on from its checkpoint, where it was changed since. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ingest.config.flow_settings import Flow


@dataclass(frozen=True)
class Fingerprint:
    """What a flow was when its checkpoint was made, or went on. ``inputs``: name and place, in the order in which Spark numbers them; ``state``: of its query
    (``state_shape``); ``plan``: a digest of the whole query; ``function``: of its source; ``times``: by input, what its event time is made of, where that is no
    column of it; None where an earlier ``ingest`` has not kept it.
    """

    inputs: tuple[tuple[str, str], ...]
    mode: str
    state: tuple[str, ...]
    plan: str
    function: str
    times: tuple[tuple[str, str], ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Fingerprint:
        """The inverse."""
        inputs = tuple((name, place) for name, place in said["inputs"])
        times = said.get("times")
        return cls(
            inputs,
            said["mode"],
            tuple(said["state"]),
            said["plan"],
            said["function"],
            None if times is None else tuple((name, made_of) for name, made_of in times),
        )


def inputs_of(flow: Flow, sources: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """``sources``: names of inputs, as Spark numbers them (``state_shape.sources``). One that is not known by name stands for itself."""
    places = {name: one.place for name, one in flow.inputs.items()}
    return tuple((name, places.get(name, "")) for name in sources)


@dataclass(frozen=True)
class Continuity:
    """``cannot``: why the state cannot follow; empty where it can. ``changed``: what was changed and does not matter to it."""

    cannot: str = ""
    changed: str = ""


def continuity(before: Fingerprint, now: Fingerprint) -> Continuity:
    """From one to the other."""
    if before.inputs != now.inputs:
        return Continuity(f"its inputs were {_listed(before)} and are {_listed(now)} now")
    if before.mode != now.mode:
        return Continuity(f"its mode was {before.mode} and is {now.mode} now")
    for was, is_now in zip(before.state, now.state, strict=False):
        if was != is_now:
            return Continuity(f"its state was of {was} and would be of {is_now} now")
    if gone := before.state[len(now.state) :]:
        return Continuity(f"it has no {gone[0]} any more")
    if new := now.state[len(before.state) :]:
        return Continuity(f"it has a new {new[0]}")
    if now.state and (changed := _other_time(before, now)):
        return Continuity(changed)
    if before.plan != now.plan:
        return Continuity(changed="its query was changed, and its state can follow")
    if before.function != now.function:
        return Continuity(changed="its source was changed, and its query was not")
    return Continuity()


def _other_time(before: Fingerprint, now: Fingerprint) -> str:
    """Its columns look the same to the state, whatever they are made of."""
    was, is_now = dict(before.times or ()), dict(now.times or ())
    for name in was.keys() & is_now.keys():
        if was[name] != is_now[name]:
            return f"its state is by {name}'s event time, which was {was[name]} and would be {is_now[name]} now"
    return ""


def _listed(one: Fingerprint) -> str:
    return ", ".join(f"{name} ({place})" if place else name for name, place in one.inputs)
