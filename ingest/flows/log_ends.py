"""How far into change logs a batch of a flow goes, by the offsets that Spark has logged. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence


def of(offsets: Sequence[str]) -> dict[str, int]:
    """By id of a change log: the newest version of it that is in the batch, or in one before, whole or in part. ``offsets``: one of each source, as
    Delta's source writes them: an ``index`` below 0 stands before the first file of ``reservoirVersion``.
    """
    found = {}
    for line in offsets:
        said = json.loads(line) if line.startswith("{") else {}
        if "reservoirId" in said:
            behind = 0 if int(said["index"]) >= 0 else 1
            found[said["reservoirId"]] = int(said["reservoirVersion"]) - behind
    return found
