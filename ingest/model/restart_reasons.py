"""Why a stream begins anew by itself: each reason once (``reasons.Reason``). A server that is away is said by its error's own
code. Pure.
"""

from __future__ import annotations

from ingest.model.reasons import RETENTION, Reason

_NOTHING_LOST = "nothing is lost: where to go on is decided anew, and nothing is applied twice"

CONFLICT = Reason(
    "Somebody else changed {path} ({operation}, version {version})",
    _NOTHING_LOST,
    "keep other writers out",
    code="conflict",
)
STALE_CHECKPOINT = Reason(
    "the checkpoint does not continue the manifest", _NOTHING_LOST, code="stale-checkpoint"
)
SHARED_CHECKPOINT = Reason(
    "another job wrote to the checkpoint",
    _NOTHING_LOST,
    "see that one job alone runs on the lake",
    code="shared-checkpoint",
)
LOST_RECORDS = Reason(
    "Kafka no longer has records that were to be applied",
    "a gap says what is missing until the table was taken again",
    RETENTION.remedy,
    code="lost-records",
)
CLOCK_SET_BACK = Reason("this machine's clock was set back", _NOTHING_LOST, code="clock-set-back")
TRIED_AGAIN = Reason(
    "a table that stood still by one failure is tried once more", _NOTHING_LOST, code="try-again"
)
RESTARTS = (
    *(CONFLICT, STALE_CHECKPOINT, SHARED_CHECKPOINT),
    *(LOST_RECORDS, CLOCK_SET_BACK, TRIED_AGAIN),
)
