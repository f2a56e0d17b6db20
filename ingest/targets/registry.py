"""The targets that there are, and which of them a table has. A new one is a file of this room and a line here. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.model.names import TARGET_PROPERTY
from ingest.targets.append_only import AppendOnly
from ingest.targets.mirror import Mirror
from ingest.targets.multiset import Multiset
from ingest.targets.soft_deletes import SoftDeletes
from ingest.targets.target import Said, Target, Unfit

_LOG = AppendOnly()
TARGETS: tuple[Target, ...] = (
    _LOG,
    SoftDeletes(),
    Multiset(),
    Mirror(),
)
"""The first one counts that is wanted."""

SETTINGS: Mapping[str, Any] = {
    name: field for target in TARGETS for name, field in target.settings.items()
}
"""Of a table in the pipeline file, all that targets take (see ``Target.settings``)."""


def chosen(said: Said, *, keyed: bool) -> Target:
    """The target that the pipeline file asks for, or the default where the table cannot be that."""
    return next(one for one in TARGETS if one.wanted(said, keyed=keyed))


def unfit(said: Said, *, keyed: bool) -> Unfit | None:
    """Why a table cannot be what the pipeline file asks for; None where it can."""
    return next(filter(None, (one.unfit(said, keyed=keyed) for one in TARGETS)), None)


def of_before(said: Said, *, keyed: bool) -> Target:
    """What versions kept a table as that noted nothing of logs. Any pattern with ``append_only`` made it one."""
    log = not keyed and any(one.get("append_only") for one in said)
    return _LOG if log else noted({}, keyed=keyed)


def noted(properties: Mapping[str, str], *, keyed: bool) -> Target:
    """The target that a table of the lake was last written by, as far as somebody must know: see :func:`note`."""
    name, alike = properties.get(TARGET_PROPERTY), [one for one in TARGETS if one.keyed == keyed]
    default = next(one for one in alike if one.default)
    return next((one for one in alike if one.name == name), default)


def note(target: Target) -> dict[str, str]:
    """The property by which a table says that not all of its rows count, or that it has such as the source no longer has. Every other
    table says nothing.
    """
    return {TARGET_PROPERTY: target.name} if target.dead or target.outlives else {}
