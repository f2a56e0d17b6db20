"""What Java loaded of Spark, Kafka or Connect, kept as it is mapped into memory: starts without reading the jars.

Class data sharing with an archive that a process writes when it ends (JEP 350, Java 13): the first job leaves
one behind, those after it start Spark in about half the time (`bench/starts.py`). Java starts without an archive
that does not go with its own build and with the jars of its class path, by their size and time; so these are in its
name, and one of jars that were installed anew since is replaced.

Java writes the header last, so a file with the magic number in its place is whole; only then does it get the name
that others look for. One that was left by another boot may have lost pages with the power, and is removed.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

from ingest.local.cache_folder import cache_folder
from ingest.local.java import java_binary

MAGIC = (0xF00BABA8).to_bytes(4, "little")
"""The first bytes of an archive of this kind (``cds.h`` of OpenJDK), as little-endian machines write them."""

_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_WRITING = 3600.0
"""Seconds after which one without a header was left by a Java that died; it takes some ten."""

_KEPT = 30 * 86400.0
"""Seconds without a reader after which another Java's or Spark's goes: 180 MB each."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def java_options(program: str, jars: Iterable[Path]) -> list[str]:
    """Options that make a program's Java use the archive of these jars, or write one at its end when there is
    none. Empty for a Java without an archive of its own classes, which this one adds to.
    """
    home = Path(java_binary()).resolve().parent.parent
    if not (home / "lib" / "server" / "classes.jsa").exists():
        return []
    files = [home / "lib" / "modules", *jars]
    of = f"{program}-{_hash(map(str, files))}-"
    archive = cache_folder() / "classes" / f"{of}{_hash(map(_state, files))}.jsa"
    if not archive.exists():
        try:
            archive.parent.mkdir(parents=True, exist_ok=True)
            _adopt(archive, of)
        except OSError:  # a cache that is not ours to write: slower, and nothing else
            return []
    if archive.exists():
        return [*_QUIET, f"-XX:SharedArchiveFile={archive}"]
    return [*_QUIET, f"-XX:ArchiveClassesAtExit={archive}.{_boot()}.{uuid.uuid4().hex[:8]}"]


def _hash(facts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _state(file: Path) -> str:
    """What Java goes by, too. A missing file is Java's to name."""
    found = file.stat() if file.exists() else None
    return f"{found.st_size} {found.st_mtime_ns}" if found else ""


def _adopt(archive: Path, of: str) -> None:
    """Give a whole one its name, and remove those that will be of no use. ``of``: how the names begin of all that
    are of these jars, whenever they were installed.
    """
    for left in sorted(archive.parent.glob(f"{of}*.jsa.*")):
        try:
            ours = left.name.startswith(f"{archive.name}.{_boot()}.")
            whole = ours and _is_whole(left)
            if whole and not archive.exists():
                left.replace(archive)
            elif whole or not ours or time.time() - left.stat().st_mtime > _WRITING:
                left.unlink()
        except FileNotFoundError:
            continue  # another start was quicker
    for other in archive.parent.glob("*.jsa"):
        unused = other.name.startswith(of) or time.time() - other.stat().st_atime > _KEPT
        if other != archive and unused:
            other.unlink(missing_ok=True)


def _is_whole(file: Path) -> bool:
    with file.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            return False
        os.fsync(opened.fileno())
    return True


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="utf-8").strip()[:8] if _BOOT_ID.exists() else "0"
