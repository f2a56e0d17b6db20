"""Every name that ingest itself puts into a lake, a topic or a commit, in one place."""

from __future__ import annotations

from urllib.parse import quote

RESERVED_COLUMN = "_ingest"
"""The one column that a target has beyond the source's own."""

INTERNAL_FOLDER = "_ingest"
"""Folder below the lake root: checkpoint, manifest, quarantine."""

APPLICATION = "ingest"


def table_folder(database: str, table: str) -> str:
    """Folder of a mirror below the lake root, percent-encoded where a file system demands it.

    ``('shop', 'orders') -> 'shop/orders'``. Two different pairs never share a folder. Letters
    beyond ASCII stay as they are: a MySQL name has up to 64 characters of at most three UTF-8
    bytes, and encoding each byte would pass the 255 bytes that a file name may have. A leading
    ``_`` or ``.`` is encoded, since Spark hides such paths and ``_ingest`` is ours.
    """
    return f"{_segment(database)}/{_segment(table)}"


def _segment(name: str) -> str:
    return "".join(
        char if _plain(char) and not (index == 0 and char in "._") else f"%{ord(char):02X}"
        for index, char in enumerate(name)
    )


def _plain(char: str) -> bool:
    return ord(char) > 127 or char.isalnum() or char in "-_.$@"


def join(root: str, *parts: str) -> str:
    """A path below ``root``, which may be a local path or a URI such as ``s3a://bucket/lake``."""
    return "/".join([root.rstrip("/"), *parts])


def checkpoint_path(lake: str) -> str:
    """Spark's checkpoint of the pipeline."""
    return join(lake, INTERNAL_FOLDER, "checkpoint")


def manifest_path(lake: str) -> str:
    """The ledger of batches, a Delta table."""
    return join(lake, INTERNAL_FOLDER, "manifest")


def quarantine_path(lake: str) -> str:
    """What could not be applied, with its reason and raw bytes, a Delta table."""
    return join(lake, INTERNAL_FOLDER, "quarantine")


def app_id(pipeline: str, checkpoint_id: str, table: str, target: str) -> str:
    """Delta's ``txnAppId`` for one target of one table: pipeline, checkpoint id, table, target.

    The checkpoint id is minted inside the checkpoint, so a new checkpoint (whose batch ids start
    at 0 again) can never mistake an old marker for its own.
    """
    return "/".join(
        [APPLICATION, *(quote(part, safe="") for part in (pipeline, checkpoint_id, table, target))]
    )


STEP_BITS = 10
"""A batch may hold up to 1,024 steps (runs of changes between two barriers) per table."""


def txn_version(batch_id: int, step: int) -> int:
    """Delta's ``txnVersion``: batch id and step folded into one growing long.

    Raises ``ValueError`` when a batch has more steps than the encoding holds; two commits with
    one identity would silently lose the second (facts.md B1).
    """
    if not 0 <= step < (1 << STEP_BITS):
        raise ValueError(f"step {step} of batch {batch_id} does not fit in {STEP_BITS} bits")
    return (batch_id << STEP_BITS) | step


def consumer_group(pipeline: str) -> str:
    """The Kafka group whose committed offsets show lag to ordinary Kafka tools."""
    return f"{APPLICATION}-{pipeline}"


def quoted(identifier: str) -> str:
    """A MySQL or Spark identifier in backquotes: the one quoting function of the project."""
    return "`" + identifier.replace("`", "``") + "`"
