"""Which ``mysqld`` an embedded stack runs: the one that was asked for, else a MySQL 8.0 on the PATH, else the pinned one.

The first start of a stack decides, and its folder remembers it: a data folder is one version's, and an older one's is brought over only by the
versions that MySQL says (8.0 by way of 8.4 to 9).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ingest.local import artefacts, libaio
from ingest.local.cache_folder import cache_folder
from ingest.model.errors import IngestError

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


def chosen(stack: Path, asked: Path | None = None) -> Mysqld:
    """For the stack in this folder, which remembers it. ``asked``: by whoever starts it. Raises :class:`IngestError` where that is none, or
    another version than the stack's data are of.
    """
    note = stack / "mysql" / "mysqld"
    held = Path(note.read_text(encoding="utf-8").strip()) if note.exists() else None
    has_data = (stack / "mysql" / "data" / "mysql.ibd").exists()
    if asked is not None:
        asked = asked.expanduser().absolute()
        _refuse_unfit(asked)
        if has_data:
            _refuse_other(asked, held or _usual(), stack)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{asked}\n", encoding="utf-8")
        held = asked
    if held is None:
        return _of(_usual())
    _refuse_unfit(held)
    return _of(held)


def _usual() -> Path | None:
    """None: the pinned one."""
    found = shutil.which("mysqld", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return Path(found) if found and (version(Path(found)) or (0, 0))[0] == _OLDEST[0] else None


def _of(binary: Path | None) -> Mysqld:
    if binary is not None:
        return Mysqld(binary, binary.resolve().parent.parent, {})
    home = artefacts.mysql_home()
    compat = libaio.library_path(cache_folder())
    paths = [str(home / "lib" / "private"), *([compat] if compat else [])]
    return Mysqld(home / "bin" / "mysqld", home, {"LD_LIBRARY_PATH": ":".join(paths)})


def version(binary: Path) -> tuple[int, int] | None:
    """Of a MySQL, as it says it; None for anything else."""
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said.stdout)
    if found is None or "MariaDB" in said.stdout or said.returncode:
        return None
    return int(found[1]), int(found[2])


def _refuse_unfit(binary: Path) -> None:
    found = version(binary)
    if found is None or not _OLDEST <= found <= _NEWEST:
        is_ = (
            "is no MySQL server that runs here"
            if found is None
            else f"is of version {found[0]}.{found[1]}"
        )
        raise IngestError(
            "E-LOCAL-MYSQLD",
            f"{binary} {is_}; it has to be a `mysqld` of MySQL 8.0 to 9.",
            means="Nothing was started.",
            remedy="name another by `ingest local up --mysql PATH`, or start over with `ingest local reset`, which deletes the stack's data.",
        )


def _refuse_other(asked: Path, held: Path | None, stack: Path) -> None:
    """The data are of the version that made them."""
    of = version(held) if held is not None else _OLDEST
    if of is not None and of != version(asked):
        raise IngestError(
            "E-LOCAL-MYSQLD",
            f"The data in {stack / 'mysql'} are of MySQL {of[0]}.{of[1]}, and {asked} is another.",
            means="Nothing was started, and nothing was changed.",
            remedy="take another folder by `--home`, or delete these data by `ingest local reset`.",
        )
