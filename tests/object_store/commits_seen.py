"""What the server was asked and what it holds, beside what the writers were told: each version of a table by one commit of one writer.

The oracle stands outside of all writers: puts as they passed on the wire, and files of the log as they lie on the server's disk.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.object_store.writers import SHARED, Told
from tests.support.faulty_http import Exchange

COMMIT = re.compile(r"/(?P<table>[^?]+)/_delta_log/(?P<version>\d{20})\.json")
_BEATEN = (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT)


def label(content: bytes) -> str:
    """Whose commit this is; empty where it does not say."""
    lines = [json.loads(line) for line in content.split(b"\n") if line.strip()]
    said = [line["commitInfo"].get("userMetadata") for line in lines if "commitInfo" in line]
    return str(said[0] or "") if len(said) == 1 else ""


def writer(of: str) -> str:
    """And the way of ours."""
    return of.partition(" ")[0]


@dataclass(frozen=True)
class Put:
    """Of a commit. ``status``: the server's answer to it."""

    version: int
    content: bytes
    status: int

    @property
    def label(self) -> str:
        return label(self.content)


@dataclass
class Wire:
    """All puts of commits that have reached the server, by table (bucket and key)."""

    puts: dict[str, list[Put]] = field(default_factory=dict)

    def heard(self, one: Exchange) -> None:
        if one.method == "PUT" and (found := COMMIT.match(one.path)):
            put = Put(int(found["version"]), one.content, one.status)
            self.puts.setdefault(found["table"], []).append(put)


def log(folder: Path) -> dict[int, bytes]:
    """By version, each entry as it lies on the server's disk."""
    files = sorted(folder.glob("_delta_log/*.json"))
    return {int(one.stem): one.read_bytes() for one in files if one.stem.isdigit()}


def came_out(
    entries: dict[int, bytes],
    puts: Sequence[Put],
    told: Told,
    rows: Sequence[dict[str, Any]],
    begun: int,
) -> dict[str, Any]:
    """Of the versions from ``begun`` on. Faults, each empty where all is well: ``not_by_one``: versions that the server took from nobody or from several;
    ``not_as_written``: whose entry is not what was taken; ``lost``: confirmed commits without an entry or row; ``twice``: with more than one;
    ``unasked``: entries that nobody was told of; ``not_told``: commits that the server refused while their writer was told no such thing.
    Counts: ``entries`` and ``beaten`` (refused by the server, as another was first) by writer; ``met_itself``: puts of a commit that was there already.
    ``stale``: what the shared row says that is not what the last commit made of it, which has changed it.
    """
    taken = dict[int, list[bytes]]()
    for put in puts:
        if HTTPStatus.OK <= put.status < HTTPStatus.MULTIPLE_CHOICES:
            taken.setdefault(put.version, []).append(put.content)
    late = {version: content for version, content in entries.items() if version >= begun}
    labels = {version: label(content) for version, content in late.items()}
    times, there = Counter(labels.values()), Counter(row["v"] for row in rows if row["id"] >= 0)
    keys = Counter(row["id"] for row in rows)
    refused = [put for put in puts if put.status in _BEATEN and put.version >= begun]
    own = [put for put in refused if labels.get(put.version) == put.label]
    beaten = {(put.version, put.label) for put in refused if put not in own}
    changed = [labels[version] for version, one in sorted(late.items()) if b'"remove"' in one]
    shared = [row["v"] for row in rows if row["id"] == SHARED]
    return {
        "confirmed": len(told.confirmed),
        "entries": dict(Counter(map(writer, labels.values()))),
        "beaten": dict(Counter(writer(one) for _, one in beaten)),
        "met_itself": len(own),
        "failures": told.failures,
        "versions": max(entries),
        "not_by_one": sorted(
            v for v in {*late, *taken} if v >= begun and len(taken.get(v, ())) != 1
        )
        + sorted({*range(max(entries) + 1)} - {*entries}),
        "not_as_written": sorted(v for v, one in late.items() if [one] != taken.get(v)),
        "lost": sorted(one for one in told.confirmed if not times[one] or not there[one]),
        "twice": sorted(one for one, many in (times | there).items() if many > 1)
        + sorted(str(key) for key, many in keys.items() if many > 1),
        "unasked": sorted(one for one in times if one not in told.confirmed),
        "not_told": sorted(one for _, one in beaten if not _heard(one, told, times))
        + sorted(one for one in told.conflicts if one not in {put.label for put in refused}),
        "stale": [one for one in shared if one != (changed or ["begun"])[-1]],
    }


def _heard(beaten: str, told: Told, times: Counter[str]) -> bool:
    """Ours ends there, and is made anew under another name; the others look again by themselves, and their commit is a later version."""
    if beaten in told.conflicts:
        return not times[beaten]
    return beaten in told.refused or times[beaten] == 1


FAULTS = ("not_by_one", "not_as_written", "lost", "twice", "unasked", "not_told", "stale")
"""By which :func:`came_out` names them."""
