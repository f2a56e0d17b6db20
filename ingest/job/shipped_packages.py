"""What a cluster's tasks import, as archives that Spark brings to their machines: our own code, and the packages it stands on.

They are made of what is installed here, once for each set of versions, and kept in the shared cache. Compiled parts are of this
platform and this Python, so the cluster's have to be of the same; Spark's own Python half is theirs.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
import time
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import ingest
from ingest.local.cache_folder import cache_folder
from ingest.model.errors import IngestError

TASKS_IMPORT = (
    "confluent-kafka",  # fetching
    "pyarrow",  # reading
    "pydantic",  # settings that go with a task
    "pyyaml",
    "pymysql",  # sinks of flows
    "cryptography",
    "redis",
    "tenacity",
)
"""And what these stand on; held by `tests/unit/job/test_cluster.py`, where nothing else is."""

NOT_SHIPPED = ("pyspark", "py4j")
"""A cluster has its own."""

_LEFT_OUT = re.compile(r"^(pyarrow/(tests|include|src)/)|\.(pyc|a|h|pxd|pyx)$|^\.\.|^/")
_KEPT = 30 * 86400.0
"""Seconds without a reader after which an archive of other versions goes."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first moment that a zip file can say: one archive of the same files is the same file."""


def archives(more: Iterable[str] = ()) -> dict[str, Path]:
    """By the folder that each becomes on a machine of the cluster, in the order of its search path. ``more``: further distributions.
    Raises :class:`IngestError` where one of these is not installed.
    """
    found = {
        "ingest-code": _made("code", _own_files()),
        "ingest-packages": _made("packages", dict(_files_of(_closure([*TASKS_IMPORT, *more])))),
    }
    _forget_old(found.values())
    return found


def ours(said: str) -> list[Path]:
    """Of what ``spark.archives`` names, those that are made here."""
    folder = cache_folder() / "shipped"
    named = (Path(one.partition("#")[0]) for one in said.split(","))
    return [one for one in named if one.parent == folder]


def keep(archives: Iterable[Path]) -> None:
    """From the cache they are read for each machine that comes, as long as a job runs: so it says, now and then, that it does."""
    for one in archives:
        with suppress(OSError):
            os.utime(one)


def _own_files() -> dict[str, Path]:
    package = Path(ingest.__file__).parent
    return {str(Path("ingest", one.relative_to(package))): one for one in package.rglob("*.py")}


def _closure(names: Iterable[str]) -> list[metadata.Distribution]:
    """These distributions and all that they require, as far as it is installed: what a marker leaves out is not."""
    found, wanted = dict[str, metadata.Distribution](), list(names)
    asked = {_normal(name) for name in wanted}
    while wanted:
        name = _normal(wanted.pop())
        if name in found or name in NOT_SHIPPED:
            continue
        try:
            one = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name in asked:
                raise _not_installed(name) from None
            continue
        if not any(file.suffix in (".py", ".so") for file in one.files or ()):
            raise _not_as_files(name)
        found[name] = one
        wanted += [
            re.split(r"[\s\[;<>=!~(]", said, maxsplit=1)[0]
            for said in one.requires or ()
            if "extra ==" not in said
        ]
    return [found[name] for name in sorted(found)]


def _normal(name: str) -> str:
    """As PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _not_installed(name: str) -> IngestError:
    return IngestError(
        "E-SPARK-SHIP",
        f"The package {name!r} is to go to the cluster's machines, and is not installed here.",
        means="Nothing was started.",
        remedy="install it, or correct `spark.ship` in the pipeline file.",
    )


def _not_as_files(name: str) -> IngestError:
    return IngestError(
        "E-SPARK-SHIP",
        f"The package {name!r} is to go to the cluster's machines, and its files are not known: it is installed as a link to a folder, or by "
        "something that keeps no list of them.",
        means="Nothing was started.",
        remedy="install it from a wheel (`pip install DIST.whl`), or have it on those machines and say `packages: installed`.",
    )


def _files_of(distributions: Iterable[metadata.Distribution]) -> Iterator[tuple[str, Path]]:
    for one in distributions:
        for file in one.files or ():
            path = Path(str(file.locate()))
            if not _LEFT_OUT.search(file.as_posix()) and path.is_file():
                yield file.as_posix(), path


def _made(kind: str, files: Mapping[str, Path]) -> Path:
    """The archive of these files, by name in it."""
    target = cache_folder() / "shipped" / f"{kind}-{_digest(files)}.zip"
    if target.exists():
        os.utime(target)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{uuid.uuid4().hex[:8]}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, file in sorted(files.items()):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, file.read_bytes())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _digest(files: Mapping[str, Path]) -> str:
    """Of names, sizes and times: an installed file is not written in place."""
    said = hashlib.sha256(f"{sys.version_info[:2]} {sysconfig.get_platform()}".encode())
    for name, file in sorted(files.items()):
        held = file.stat()
        said.update(f"{name} {held.st_size} {held.st_mtime_ns}\n".encode())
    return said.hexdigest()[:16]


def _forget_old(wanted: Iterable[Path]) -> None:
    mine, now = set(wanted), time.time()
    for file in (cache_folder() / "shipped").iterdir():
        try:
            if file not in mine and now - file.stat().st_mtime > _KEPT:
                file.unlink()
        except FileNotFoundError:
            continue  # another process was faster
