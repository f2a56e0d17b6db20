"""Where a path of a lake lies: on this machine's disk, in an object store or elsewhere, and whether delta-rs finds it there.

Nothing else looks at how a path is written. Who needs the folder asks for it here, and gets None where there is none. Pure.
"""

from __future__ import annotations

from pathlib import Path


def local_folder(path: str) -> Path | None:
    """The folder of a path or ``file:`` URI on this machine's disk; None for all others."""
    if "://" in path and not path.startswith("file:"):
        return None
    return Path(path.removeprefix("file://").removeprefix("file:"))


def delta_rs_folder(path: str) -> Path | None:
    """The same, but None where the name has a percent sign or a backslash: delta-rs (1.6.6) decodes the one once too
    often and takes the other for a slash, so it would look into another folder.
    """
    folder = local_folder(path)
    return None if folder is None or {"%", "\\"} & set(str(folder)) else folder


def delta_rs_place(path: str) -> str | None:
    """The same, or the URI of an object store, as delta-rs is told of it; None where it would not find it."""
    if is_local(path):
        folder = delta_rs_folder(path)
        return None if folder is None else str(folder)
    return path if in_object_store(path) and not {"%", "\\"} & set(path) else None


def is_local(path: str) -> bool:
    """True for a path on this machine's disk, whose small files are read and written without Spark."""
    return local_folder(path) is not None


def as_uri(path: str) -> str:
    """As Spark writes it where others are to find it."""
    folder = local_folder(path)
    return path if folder is None else f"file:{folder.absolute()}"


_S3 = ("s3", "s3a")
_OBJECT_STORES = (*_S3, "gs", "abfs", "abfss")


def scheme(path: str) -> str:
    """Of a URI; empty for a local path."""
    return "" if is_local(path) else path.partition("://")[0]


def is_s3(path: str) -> bool:
    """True in an object store of S3's kind."""
    return scheme(path) in _S3


def in_object_store(path: str) -> bool:
    """True where small files are reached over HTTP, without Spark."""
    return scheme(path) in _OBJECT_STORES


def within_reach(path: str) -> bool:
    """True where small files are read and written without Spark."""
    return is_local(path) or in_object_store(path)
