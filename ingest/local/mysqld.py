"""Which ``mysqld`` an embedded stack runs: the one that was asked for, else a MySQL 8 on the PATH, else the pinned one.

The first start of a stack decides, and its folder remembers the server and of which version its data are: another version's server would bring them
over without a word and without a way back, or fail (8.0 goes to 9 by way of 8.4).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.lake.files import durability
from ingest.local import artefacts, libaio
from ingest.local.cache_folder import cache_folder
from ingest.model.errors import IngestError

Version = tuple[int, int]

_OLDEST, _NEWEST = (8, 0), (9, 99)
_VERSION = re.compile(r"Ver (\d+)\.(\d+)\.\d+")
_MESSAGES = ("share", "share/mysql", "share/mysql-8.0", "share/mysql-8.4")
"""Below a server's own folder: where packages keep what it says when something fails."""


@dataclass(frozen=True)
class Mysqld:
    """``environment``: beside that of this process."""

    binary: Path
    home: Path
    environment: dict[str, str]

    @property
    def messages(self) -> Path | None:
        """Folder of its error messages, where its package has them."""
        found = (self.home / name for name in _MESSAGES)
        return next((one for one in found if (one / "english" / "errmsg.sys").exists()), None)

    def version(self) -> tuple[Version | None, str]:
        """Of a MySQL, as it says it; None for anything else, with its last line."""
        said = [str(self.binary), "--version"]
        environment = {**os.environ, **self.environment}
        try:
            done = subprocess.run(said, capture_output=True, text=True, timeout=60, env=environment)
        except (OSError, subprocess.TimeoutExpired) as failure:
            return None, str(failure)
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
        found = _VERSION.search(done.stdout)
        if found is None or "MariaDB" in done.stdout or done.returncode:
            return None, lines[-1]
        return (int(found[1]), int(found[2])), lines[-1]


@dataclass(frozen=True)
class _Note:
    """What a stack's folder remembers. ``binary``: None for the pinned one; ``data``: the version that its data are of, once there are any."""

    binary: Path | None
    data: Version | None


def chosen(stack: Path, asked: Path | None = None) -> Mysqld:
    """For the stack in this folder, which remembers it. ``asked``: by whoever starts it. Raises :class:`IngestError` where that is none, or
    another version than the stack's data are of.
    """
    note = _read(stack)
    if asked is not None:
        asked = asked.expanduser().absolute()
    wanted = asked or (note.binary if note else _usual())
    server = _of(wanted)
    version = _fit(server) if wanted else _OLDEST
    has_data = (stack / "mysql" / "data" / "mysql.ibd").exists()
    data = note.data if note and has_data else None
    if has_data and data is None and asked is not None and not _file(stack).exists():
        data = _of(_usual()).version()[0]  # a folder of before there was a note
    if data not in (None, version):
        _refuse_other(server.binary, data, stack)
    _write(stack, _Note(wanted, data or (version if has_data else None)))
    return server


def has_made_data(stack: Path, server: Mysqld) -> None:
    """Remember of which version the data are."""
    note = _read(stack)
    assert note is not None  # as :func:`chosen` leaves it
    _write(stack, replace(note, data=server.version()[0]))


def _file(stack: Path) -> Path:
    return stack / "mysql" / "mysqld.json"


def _read(stack: Path) -> _Note | None:
    """None where there is none, or a power cut has left it empty or cut off."""
    if not _file(stack).exists():
        return None
    try:
        said = json.loads(_file(stack).read_text(encoding="utf-8"))
    except ValueError:
        return None
    data = said["data"]
    return _Note(Path(said["binary"]) if said["binary"] else None, tuple(data) if data else None)


def _write(stack: Path, note: _Note) -> None:
    said = {"binary": str(note.binary) if note.binary else None, "data": note.data}
    fresh = _file(stack).with_suffix(".part")
    fresh.parent.mkdir(parents=True, exist_ok=True)
    fresh.write_text(json.dumps(said) + "\n", encoding="utf-8")
    durability.contents(fresh)  # else a power cut may leave the name and no content
    fresh.replace(_file(stack))


def _usual() -> Path | None:
    """None: the pinned one."""
    on_path = shutil.which("mysqld", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if on_path is None:
        return None
    found = Path(on_path)
    version, _ = Mysqld(found, found.resolve().parent.parent, {}).version()
    return found if version and version[0] == _OLDEST[0] else None


def _of(binary: Path | None) -> Mysqld:
    binary = binary or artefacts.mysql_home() / "bin" / "mysqld"
    home = binary.resolve().parent.parent
    if not (home / "lib" / "private").exists():  # a package's own, which finds its libraries
        return Mysqld(binary, home, {})
    compat = libaio.library_path(cache_folder())
    paths = [str(home / "lib" / "private"), *([compat] if compat else [])]
    return Mysqld(binary, home, {"LD_LIBRARY_PATH": ":".join(paths)})


def _fit(server: Mysqld) -> Version:
    version, said = server.version()
    if version is not None and _OLDEST <= version <= _NEWEST:
        return version
    is_ = (
        f"is of version {version[0]}.{version[1]}"
        if version
        else "is no MySQL server that runs here"
    )
    raise IngestError(
        "E-LOCAL-MYSQLD",
        f"{server.binary} {is_} ({said}); it has to be a `mysqld` of MySQL 8.0 to 9.",
        means="Nothing was started.",
        remedy="name another by `ingest local up --mysql PATH`, or start over with `ingest local reset`, which deletes the stack's data.",
    )


def _refuse_other(binary: Path, data: Version, stack: Path) -> None:
    raise IngestError(
        "E-LOCAL-MYSQLD",
        f"The data in {stack / 'mysql'} are of MySQL {data[0]}.{data[1]}, and {binary} is another.",
        means="Nothing was started, and nothing was changed.",
        remedy=f"name a `mysqld` of {data[0]}.{data[1]} by `ingest local up --mysql PATH`, take another folder by `--home`, or delete these data by "
        "`ingest local reset`.",
    )
