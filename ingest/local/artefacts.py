"""Fetch once, verify always: the binaries that ``connect/artefacts.lock.json`` pins.

One resolver (the Ivy that pyspark already carries, so nothing else need be installed), one shared
cache (``$INGEST_CACHE``, else ``~/.cache/ingest``). A file is hashed before it enters the cache
and again before every use; what does not match its SHA-256 is never loaded.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.sax.saxutils import quoteattr

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from ingest.config.resources import resource
from ingest.local import tar
from ingest.local.cache_folder import cache_folder
from ingest.local.java import java_binary
from ingest.local.one_at_a_time import only_one
from ingest.model.errors import Exit, IngestError

LOCK = "artefacts.lock.json"
MYSQL_PLATFORMS = ("linux-x86_64", "linux-aarch64", "mac-aarch64", "mac-x86_64")
_NOTHING_COMES = 180.0
"""Seconds without a byte, after which Maven Central counts as out of reach: Ivy itself has no limit."""
_STALLED = f" (nothing came for {_NOTHING_COMES:.0f} s)"
_MYSQL_PARTS = ("bin/mysqld", "share/", "lib/private/", "lib/plugin/", "LICENSE")


@dataclass(frozen=True)
class Artefact:
    """One pinned file: Maven coordinates, SHA-256 and size in bytes."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int
    classifier: str = ""
    type: str = "jar"

    @property
    def coordinate(self) -> str:
        """``group:artifact:version[:classifier]``, as Maven and Ivy users write it."""
        parts = [self.group, self.artifact, self.version, self.classifier]
        return ":".join(part for part in parts if part)

    @property
    def file_name(self) -> str:
        """``artifact-version[-classifier].type``."""
        stem = "-".join(part for part in (self.artifact, self.version, self.classifier) if part)
        return f"{stem}.{self.type}"

    @property
    def path(self) -> Path:
        """Where it lies in the shared cache."""
        return cache_folder() / "artefacts" / self.group / self.file_name


@cache
def locked() -> dict[str, tuple[Artefact, ...]]:
    """The lock file: group name to its artefacts."""
    groups = json.loads(resource("connect", LOCK).read_text(encoding="utf-8"))["groups"]
    return {name: tuple(Artefact(**entry) for entry in entries) for name, entries in groups.items()}


def group(name: str) -> tuple[Artefact, ...]:
    """The artefacts of a group that this machine needs (MySQL has one per platform)."""
    entries = locked()[name]
    if name != "mysql":
        return entries
    wanted = mysql_platform()
    chosen = tuple(entry for entry in entries if entry.classifier == wanted)
    if not chosen:
        raise IngestError(
            "E-ARTEFACT-PLATFORM",
            f"There is no pinned MySQL for this machine ({wanted}).",
            remedy="install a MySQL 8 server so that `mysqld` is on the PATH; it is used first.",
        )
    return chosen


def mysql_platform() -> str:
    """The classifier of the pinned MySQL for this machine, for example ``linux-x86_64``."""
    system = {"Darwin": "mac"}.get(platform.system(), platform.system().lower())
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    return f"{system}-{machine}"


def jars(name: str) -> list[Path]:
    """Verified local jar files of a group, fetched when absent. Raises :class:`IngestError`."""
    ensure([name])
    return [entry.path for entry in group(name)]


def debezium_plugin() -> Path:
    """The folder that Connect gets as ``plugin.path``, unpacked from the verified archive."""
    return _unpacked("debezium", lambda member: member.endswith((".jar", ".txt")))


def mysql_home() -> Path:
    """Folder of the pinned MySQL server, unpacked: ``bin/mysqld``, ``share``, libraries."""
    return _unpacked("mysql", lambda member: member.startswith(_MYSQL_PARTS) and _wanted(member))


def _wanted(member: str) -> bool:
    return "/debug/" not in member and not member.endswith((".a", "-debug"))


def ensure(names: Iterable[str]) -> None:
    """Have every artefact of the groups in the cache, verified; show progress while fetching."""
    have(entry for name in names for entry in group(name))


def have(entries: Iterable[Artefact]) -> None:
    """Have these artefacts in the cache, verified; show progress while fetching. Raises :class:`IngestError`."""
    wanted = list({entry.path: entry for entry in entries}.values())
    absent = [entry for entry in wanted if not entry.path.exists()]
    for entry in wanted:
        if entry.path.exists():
            _verify(entry, entry.path)
    if absent:
        with only_one(cache_folder() / "fetch"):
            absent = [entry for entry in absent if not entry.path.exists()]
            if absent:
                _fetch(absent)


def _verify(entry: Artefact, path: Path) -> None:
    actual = _sha256(path)
    if actual != entry.sha256:
        raise IngestError(
            "E-ARTEFACT-HASH",
            f"{path} is not {entry.coordinate}: its SHA-256 is {actual[:16]}…, "
            f"pinned is {entry.sha256[:16]}….",
            means="Nothing was started with it.",
            remedy=f"delete that file and run the command again; it is fetched anew: rm '{path}'",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _fetch(absent: list[Artefact]) -> None:
    """Under the lock of ``have``: a folder of another download is of one that was killed."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    for left in cache_folder().glob("fetch-*/"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="fetch-") as folder:
        work = Path(folder)
        (work / "ivy.xml").write_text(_ivy_module(absent), encoding="utf-8")
        log = work / "ivy.log"
        command = [
            java_binary(),
            f"-Divy.default.ivy.user.dir={work / 'ivy'}",
            "-jar",
            str(ivy_jar()),
            "-ivy",
            str(work / "ivy.xml"),
            "-retrieve",
            str(work / "out/[organisation]/[artifact]-[revision](-[classifier]).[ext]"),
            "-types",
            *sorted({entry.type for entry in absent}),
        ]
        with log.open("wb") as output:
            ivy = subprocess.Popen(command, stdout=output, stderr=output)
            try:
                bytes_ = sum(entry.size for entry in absent)
                stalled = _show_progress(ivy, work / "ivy", bytes_, len(absent))
            finally:
                ivy.kill()  # nothing, once it has ended
                ivy.wait()
        for entry in absent:
            fetched = work / "out" / entry.group / entry.file_name
            if not fetched.exists():
                raise IngestError(
                    "E-ARTEFACT-ABSENT",
                    f"{entry.coordinate} could not be fetched from Maven Central"
                    f"{_ivy_reason(log) or _STALLED * stalled}.",
                    means="Nothing was started.",
                    remedy="check that this machine reaches Maven Central (or set INGEST_CACHE to "
                    "a folder that already holds the artefacts) and run the command again.",
                    exit_code=Exit.FAILED,
                )
            _verify(entry, fetched)
            entry.path.parent.mkdir(parents=True, exist_ok=True)
            fetched.replace(entry.path)


def _ivy_reason(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    useful = [line.strip() for line in lines if "UnknownHost" in line or "SERVER ERROR" in line]
    return f" ({useful[0]})" if useful else ""


def ivy_jar() -> Path:
    """The Maven resolver that pyspark carries."""
    import pyspark

    found = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise IngestError(
            "E-ARTEFACT-RESOLVER",
            "pyspark's own Ivy jar is missing from its jars folder.",
            remedy="install pyspark again from the lock file: `make clean` and then `make demo`.",
        )
    return found[-1]


def _ivy_module(entries: list[Artefact]) -> str:
    dependencies = "\n".join(
        f"<dependency org={quoteattr(e.group)} name={quoteattr(e.artifact)} "
        f'rev={quoteattr(e.version)} transitive="false" conf="default->master">'
        f"<artifact name={quoteattr(e.artifact)} type={quoteattr(e.type)} ext={quoteattr(e.type)}"
        + (f" m:classifier={quoteattr(e.classifier)}" if e.classifier else "")
        + "/></dependency>"
        for e in entries
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="ingest" module="artefacts"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _show_progress(ivy: subprocess.Popen[bytes], folder: Path, total: int, files: int) -> bool:
    """Until it has ended. True: nothing comes any more, and it goes on."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    what = f"fetching {files} artefact{'s' if files > 1 else ''}"
    if not sys.stderr.isatty():
        print(f"{what}, {total / 1e6:,.0f} MB …", file=sys.stderr, flush=True)
    from rich.console import Console

    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)
        had, since = 0, time.monotonic()
        while ivy.poll() is None:
            has = _bytes_below(folder)
            if has != had:
                had, since = has, time.monotonic()
            if time.monotonic() - since > _NOTHING_COMES:
                return True
            bar.update(task, completed=min(total, has))
            time.sleep(0.2)
        bar.update(task, completed=total)
    return False


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            info = path.stat()
        except FileNotFoundError:  # Ivy renames its .part files under our feet
            continue
        if stat.S_ISREG(info.st_mode):
            total += info.st_size
    return total


def _unpacked(name: str, keep: object) -> Path:
    """Unpack a group's one archive beside it, once; the folder carries the archive's hash.

    The archive itself is not kept (MySQL's is half a gigabyte). The folder gets a list of its
    files with their hashes, and every start verifies the folder against it.
    """
    (entry,) = group(name)
    home = cache_folder() / f"{entry.artifact}-{entry.version}-{entry.sha256[:12]}"
    listing = home / "SHA256SUMS"
    if not listing.exists():
        with only_one(home):
            if not listing.exists():
                ensure([name])
                _unpack(entry, home, keep)
                entry.path.unlink()
    _verify_unpacked(entry, home, listing)
    return home


def _unpack(entry: Artefact, home: Path, keep: object) -> None:
    assert callable(keep)
    staging = home.with_suffix(".part")
    shutil.rmtree(staging, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    staging.mkdir(parents=True)
    if entry.type == "zip":
        _unzip(entry.path, staging, keep)
    else:
        with tarfile.open(entry.path) as archive:
            members = [member for member in archive.getmembers() if keep(member.name)]
            tar.unpack(archive, staging, members)
    files = sorted(path for path in staging.rglob("*") if path.is_file() and not path.is_symlink())
    sums = "".join(f"{_sha256(path)}  {path.relative_to(staging)}\n" for path in files)
    (staging / "SHA256SUMS").write_text(sums, encoding="utf-8")
    staging.replace(home)


def _unzip(source: Path, target: Path, keep: object) -> None:
    assert callable(keep)
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            if member.is_dir() or not keep(member.filename):
                continue
            archive.extract(member, target)
            mode = member.external_attr >> 16
            path = target / member.filename
            if stat.S_ISLNK(mode):
                link = path.read_text(encoding="utf-8")
                path.unlink()
                path.symlink_to(link)
            else:
                path.chmod(0o755 if mode & 0o111 or "bin/" in member.filename else 0o644)


def _verify_unpacked(entry: Artefact, home: Path, listing: Path) -> None:
    for line in listing.read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        path = home / name
        if not path.exists() or _sha256(path) != expected:
            raise IngestError(
                "E-ARTEFACT-HASH",
                f"{path}, unpacked from {entry.coordinate}, is "
                f"{'damaged' if path.exists() else 'missing'}.",
                means="Nothing was started with it.",
                remedy="delete that folder and run the command again; it is fetched anew: "
                f"rm -r '{home}'",
            )
