"""Every name that ingest itself puts into a lake, a topic or a commit, in one place. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote

RESERVED_COLUMN = "_ingest"
"""The one column that a target has beyond the source's own."""

INTERNAL_FOLDER = "_ingest"
"""Folder below the lake root: checkpoint, manifest, quarantine."""

APPLICATION = "ingest"


KEY_PROPERTY = "ingest.key"
"""Of a mirror: its key's columns, as JSON."""

TARGET_PROPERTY = "ingest.target"
"""Of a table in which not all rows count: its target (``targets.registry``)."""

FLOW_PROPERTY = "ingest.flow"
"""Of a table that a flow writes: pipeline and flow."""

SOURCE_PROPERTY = "ingest.source"
"""Of a mirror: the source's table."""

SOURCE_PROPERTIES = (SOURCE_PROPERTY, "ingest.kafka.record_stream")
"""Where it is sought: a commit that renamed modules renamed the property with them, and lakes were made with it."""


def table_folder(database: str, table: str) -> str:
    """Folder of a mirror below the lake root, percent-encoded where a file system demands it.

    ``('shop', 'orders') -> 'shop/orders'``. Two different pairs never share a folder. Letters
    beyond ASCII stay as they are: a MySQL name has up to 64 characters of at most three UTF-8
    bytes, and encoding each byte would pass the 255 bytes that a file name may have. A leading
    ``_`` or ``.`` is encoded, since Spark hides such paths and ``_ingest`` is ours.
    """
    return f"{_segment(database)}/{_segment(table)}"


def change_log_folder(database: str, table: str, suffix: str) -> str:
    """Folder of a table's change log, beside its mirror: ``shop/orders__changes``."""
    return table_folder(database, f"{table}{suffix}")


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


IDENTITY_FILE = "ingest.identity"
"""Inside that checkpoint: pipeline name, checkpoint id and the query's shape. Gone with it."""

REPLACED_FILE = "ingest.replaced"
"""Inside one that is being replaced: the pipeline's name. Nothing else there counts, and the last file to go is this one."""


def manifest_path(lake: str) -> str:
    """The ledger of batches, a Delta table."""
    return join(lake, INTERNAL_FOLDER, "manifest")


def quarantine_path(lake: str) -> str:
    """What could not be applied, with its reason and raw bytes, a Delta table."""
    return join(lake, INTERNAL_FOLDER, "quarantine")


def lease_path(lake: str) -> str:
    """Who may write: one file per term."""
    return join(lake, INTERNAL_FOLDER, "lease")


def resync_path(lake: str) -> str:
    """Tables that are being taken again: one file per request."""
    return join(lake, INTERNAL_FOLDER, "resync")


def taken_path(lake: str) -> str:
    """Which tables the pipeline file took in the last runs: by it a start knows which join."""
    return join(lake, INTERNAL_FOLDER, "taken")


def epochs_path(lake: str) -> str:
    """Where the source's log was replaced by another: one file per epoch."""
    return join(lake, INTERNAL_FOLDER, "epochs")


def maintenance_path(lake: str) -> str:
    """When old versions were removed."""
    return join(lake, INTERNAL_FOLDER, "maintenance")


def owner_path(lake: str) -> str:
    """Which pipeline the lake belongs to."""
    return join(lake, INTERNAL_FOLDER, "owner")


def upgrade_path(lake: str) -> str:
    """That what an earlier commit of ours has left is brought over."""
    return join(lake, INTERNAL_FOLDER, "upgrade")


def flow_path(lake: str, flow: str) -> str:
    """Where a flow keeps its checkpoint, its late rows and what it says of itself."""
    return join(lake, INTERNAL_FOLDER, "flows", flow)


def scratch_path(lake: str) -> str:
    """Files that are being written; of no use after a crash."""
    return join(lake, INTERNAL_FOLDER, "scratch")


_TERM = "term-"


def scratch_of(lake: str, term: int, flow: str = "") -> str:
    """Those of one term's job, so that who sweeps what others have left does not meet them. ``flow``: whose terms are its own; empty for
    the job of the mirrors.
    """
    return join(scratch_path(lake), f"{_scratch(flow)}{term}")


def is_left_over(name: str, term: int, flow: str = "") -> bool:
    """True for what lies in the scratch's folder and is of a term before this one, or of none, as earlier versions left it; but of flows
    for each flow itself.
    """
    if not flow and name.startswith(_FLOW):
        return False
    number = name.removeprefix(_scratch(flow))
    if name == number:
        return not flow
    if not number.isdecimal():
        return not flow  # of another flow, whose name goes on so
    return int(number) < term


_FLOW = "flow-"


def _scratch(flow: str) -> str:
    return f"{_FLOW}{quote(flow, safe='')}-{_TERM}" if flow else _TERM


class Role(Enum):
    """What a commit of ours is: the last part of its app id. There is no app id without one, and whoever takes the lease
    over fences all of them (:func:`app_ids`).
    """

    MIRROR = "mirror"
    """A source table's changes, in its own table."""
    CHANGE_LOG = "change-log"
    """The same changes, each appended once to the table's change log."""
    ABSENT = "mirror-absent"
    """Changes that remove a row which that table does not hold, in the quarantine."""
    QUARANTINE = "quarantine"
    """What else of a batch cannot be applied, and what of it is settled."""
    MANIFEST = "manifest"
    UPGRADE = "upgrade"
    """What an earlier version of ours has left in a table, brought over."""
    UPKEEP = "upkeep"
    """Rows of the manifest, or of a change log, that nobody needs any more, removed."""
    FLOW = "flow"
    """A batch of a flow, in one of its tables. Its app ids have a lease of their own, and whoever takes that over fences them."""
    LATE = "flow-late"
    """What of such a batch came behind the watermark."""


def app_id(pipeline: str, checkpoint_id: str, table: str, role: Role) -> str:
    """Delta's ``txnAppId`` for one role of one table: pipeline, checkpoint id, table, role.

    The checkpoint id is minted inside the checkpoint, so a new checkpoint can never mistake an old
    marker for its own.
    """
    parts = (pipeline, checkpoint_id, table, role.value)
    return "/".join([APPLICATION, *(quote(part, safe="") for part in parts)])


def absent_app_id(mirror: str) -> str:
    """For what the quarantine gets of the table that is committed to under the app id ``mirror``. Raises ``ValueError``
    where that is none of ours.
    """
    parts = app_id_parts(mirror)
    if parts is None:
        raise ValueError(f"{mirror!r} is no app id of ours")
    return app_id(*parts[:3], Role.ABSENT)


def upgrade_app_id(pipeline: str, table: str, version: int) -> str:
    """A name of its own for each version of a table that is brought over: one that was restored has to be so again."""
    return app_id(pipeline, f"upgrade-{version}", table, Role.UPGRADE)


def upkeep_app_id(pipeline: str) -> str:
    """For what is removed from the manifest, and from change logs."""
    return app_id(pipeline, "", INTERNAL_FOLDER, Role.UPKEEP)


def log_app_ids(pipeline: str, checkpoint_ids: Iterable[str], table: str) -> set[str]:
    """Every app id under which a job may commit to a table's change log."""
    found = {app_id(pipeline, one, table, Role.CHANGE_LOG) for one in checkpoint_ids}
    return {*found, upkeep_app_id(pipeline)}


def app_ids(
    pipeline: str, checkpoint_ids: Iterable[str], lake: Mapping[str, int]
) -> dict[str, set[str]]:
    """Every app id under which a job may commit to the lake as it is, by the table that it commits to. ``lake``: the
    tables that are there, each with its version; ours are called ``_ingest/manifest`` and ``_ingest/quarantine``.
    """
    ids = sorted(set(checkpoint_ids))
    own = {role: join(INTERNAL_FOLDER, role.value) for role in (Role.MANIFEST, Role.QUARANTINE)}
    mirrors = [name for name in lake if name not in own.values()]
    found = {name: {upgrade_app_id(pipeline, name, version)} for name, version in lake.items()}
    for name in mirrors:
        found[name] |= {app_id(pipeline, one, name, Role.MIRROR) for one in ids}
    for role, name in own.items():
        if name in lake:
            found[name] |= {app_id(pipeline, one, INTERNAL_FOLDER, role) for one in ids}
    if (ledger := own[Role.MANIFEST]) in lake:
        found[ledger].add(upkeep_app_id(pipeline))
    if (quarantine := own[Role.QUARANTINE]) in lake:
        absent = {app_id(pipeline, one, name, Role.ABSENT) for one in ids for name in mirrors}
        found[quarantine] |= absent
    return found


# Delta refuses these in column names unless columns are mapped (Parquet's own restriction).
_NEEDS_MAPPING = set(" ,;{}()\n\t=")


def needs_mapping(name: str) -> bool:
    """True for a column name that Delta holds only with column mapping."""
    return bool(_NEEDS_MAPPING & set(name))


TERM_BITS, BATCH_BITS, STEP_BITS = 20, 30, 13
"""63 bits: a million take-overs, a billion batches (34 years of one a second), and 8,192 commits of one
batch per target, which are 2,048 DDLs of one table. A batch of more takes the next batch's number, too."""


def numbered(batch: int, step: int) -> tuple[int, int]:
    """(batch, step) of a commit's marker. One number of a batch has room for 8,192 steps; the next step is the first of the next
    number, and so on, so that markers keep growing. The batch is then published under the last number that it used
    (``table_applier.further_numbers``), and no other batch uses one of them.
    """
    return batch + (step >> STEP_BITS), step & ((1 << STEP_BITS) - 1)


@dataclass(frozen=True, order=True)
class Marker:
    """Delta's ``txnVersion`` of a commit: who (lease term), which batch, which step of it.

    The term leads, so that once a successor has put its own term into a table, Delta itself skips
    whatever a predecessor still tries to commit there: its versions are lower.
    """

    term: int
    batch: int
    step: int

    @property
    def version(self) -> int:
        """The growing long. Raises ``ValueError`` when a part does not fit; two commits with one
        identity would silently lose the second (``tests/capability/test_delta.py``).
        """
        for name, value, bits in (
            ("term", self.term, TERM_BITS),
            ("batch", self.batch, BATCH_BITS),
            ("step", self.step, STEP_BITS),
        ):
            if not 0 <= value < (1 << bits):
                raise ValueError(f"{name} {value} does not fit in {bits} bits")
        return ((self.term << BATCH_BITS | self.batch) << STEP_BITS) | self.step

    @property
    def place(self) -> tuple[int, int]:
        """(batch, step): what the commit holds, whoever made it."""
        return (self.batch, self.step)

    @classmethod
    def parse(cls, version: int) -> Marker:
        """The inverse of :attr:`version`."""
        batch = (version >> STEP_BITS) & ((1 << BATCH_BITS) - 1)
        return cls(version >> (STEP_BITS + BATCH_BITS), batch, version & ((1 << STEP_BITS) - 1))


def app_id_parts(text: str) -> tuple[str, str, str, str] | None:
    """(pipeline, checkpoint id, table, role) of an app id of ours, or None."""
    parts = text.split("/")
    if len(parts) != 5 or parts[0] != APPLICATION:
        return None
    return (unquote(parts[1]), unquote(parts[2]), unquote(parts[3]), unquote(parts[4]))


def consumer_group(pipeline: str) -> str:
    """The Kafka group whose committed offsets show lag to ordinary Kafka tools."""
    return f"{APPLICATION}-{pipeline}"


def quoted(identifier: str) -> str:
    """A MySQL or Spark identifier in backquotes: the one quoting function of the project."""
    return "`" + identifier.replace("`", "``") + "`"


def unquoted(identifier: str) -> str:
    """What :func:`quoted` was given."""
    return identifier[1:-1].replace("``", "`")


def quoted_for_delta_rs(identifier: str) -> str:
    """The same for delta-rs, whose SQL is DataFusion's."""
    return '"' + identifier.replace('"', '""') + '"'
