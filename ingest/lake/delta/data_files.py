"""Which files below a table are its own, and which a version needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

from ingest.lake.files.object_files import opened

_FILE = re.compile(r"[^/]+\.(parquet|bin|crc)")
"""Names of a table's files below it: data, deletion vectors, and what Hadoop keeps beside either."""
_VECTORS = "deletion_vector_"
"""How names of files begin that hold deletion vectors."""
_PREFIXED = re.compile(r"\w\w/" + _FILE.pattern)


def own_files(names: Iterable[str], configuration: Mapping[str, str]) -> list[str]:
    """Those of these names below a table that can be files of its own; what else lies there, another table perhaps, is somebody else's. ``configuration``: the
    table's. Where columns are mapped, or a property asks for it, they lie in folders of two random characters (Delta's ``delta.randomPrefixLength``).
    """
    mapped = configuration.get("delta.columnMapping.mode", "none") != "none"
    prefixed = mapped or configuration.get("delta.randomizeFilePrefixes", "") == "true"
    kinds = (_FILE, _PREFIXED) if prefixed else (_FILE,)
    return [name for name in names if any(kind.fullmatch(name) for kind in kinds)]


def unneeded(
    named: Iterable[str], configuration: Mapping[str, str], needed: Collection[str]
) -> list[str]:
    """Of what delta-rs names for removal what may go: of a table's own files those whose last name is none of ``needed``. Deletion vectors that are in use are among
    those that it (1.6.6) names; ours stand in the log, so no file of such goes.
    """
    last = {one: last_name(one) for one in own_files(named, configuration)}
    return [
        one for one, name in last.items() if not name.startswith(_VECTORS) and name not in needed
    ]


def names_at(place: str, version: int) -> set[str]:
    """Last names of a version's data files; none where its log is not whole any more. Raises what else delta-rs does: what cannot be looked at may be needed."""
    try:
        actions = pa.table(opened(place, version).get_add_actions(flatten=True))
    except TableNotFoundError:
        return set()
    return set(map(last_name, actions["path"].to_pylist()))


def last_name(path: str) -> str:
    """Of a file's path or URI, as logs have it: drawn by lot, so no two files share it."""
    return PurePosixPath(unquote(path)).name
