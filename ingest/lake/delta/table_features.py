"""What a table asks of its readers and writers, as an action of its log, and of whoever cleans it."""

from __future__ import annotations

from ingest.lake.delta.delta_log import Action

LOCAL_TIMES = "timestampNtz"

_PLAIN = ("appendOnly", "invariants")
"""What writer version 2 asks for without naming it."""


def with_feature(protocol: Action, feature: str) -> Action:
    """The protocol with one feature more, of readers and of writers; the same one where it has it. ``protocol``: one that names its features, or
    a plain one (``delta_snapshot.asked_of_writers``).
    """
    readers, writers = (set(protocol.get(n) or ()) for n in ("readerFeatures", "writerFeatures"))
    if feature in readers & writers:
        return protocol
    if protocol["minWriterVersion"] == 2:
        writers = {*_PLAIN}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted({*readers, feature}),
        "writerFeatures": sorted({*writers, feature}),
    }


def kept_for(hours: int, *, by_checkpoints: bool) -> dict[str, str]:
    """Properties that say for how long its versions stay: all that vacuum, or clean its log, go by them. ``by_checkpoints``: whether
    a checkpoint cleans the log by these; where upkeep does, none may: a flow may be further behind than they say, and a commit
    of somebody else's go before anybody has looked at it.
    """
    names = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
    cleans = {"delta.enableExpiredLogCleanup": str(by_checkpoints).lower()}
    return dict.fromkeys(names, f"interval {hours} hours") | cleans
