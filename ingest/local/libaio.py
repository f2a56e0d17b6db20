"""``libaio``, the one system library that the pinned MySQL needs and many machines lack."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ingest.local.one_at_a_time import only_one
from ingest.model.errors import Exit, IngestError

_PACKAGES = (
    ("apt-get", ["libaio1t64", "libaio1"], ["libnuma1"]),
    ("dnf", ["libaio"], ["numactl-libs"]),
    ("yum", ["libaio"], ["numactl-libs"]),
    ("zypper", ["libaio1"], ["libnuma1"]),
)


def library_path(cache: Path) -> str | None:
    """A folder for ``LD_LIBRARY_PATH``, or None when the system's own name serves.

    Debian 13 and Ubuntu 24.04 ship the same library as ``libaio.so.1t64``; a link with the old
    name is all that is missing there. Installs the package where it is absent and we are root,
    else raises :class:`IngestError` with the command to run.
    """
    if sys.platform != "linux" or _loads("libaio.so.1"):
        return None
    # Two stacks that start at once on a fresh machine would both install it, and a package manager takes one at a
    # time: the other would be told that it cannot be installed.
    with only_one(cache / "libaio"):
        if not (_loads("libaio.so.1") or _loads("libaio.so.1t64")):
            _install()
    if _loads("libaio.so.1"):
        return None
    compat = cache / "compat"
    compat.mkdir(parents=True, exist_ok=True)
    link = compat / "libaio.so.1"
    if not link.exists():
        link.symlink_to(_located("libaio.so.1t64"))
    return str(compat)


def _loads(name: str) -> bool:
    # A fresh process each time: a library installed a second ago must be seen.
    probe = [sys.executable, "-c", "import ctypes,sys; ctypes.CDLL(sys.argv[1])", name]
    return subprocess.run(probe, capture_output=True).returncode == 0


def _located(name: str) -> Path:
    library = ctypes.CDLL(name)
    del library
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if name.split(".so", maxsplit=1)[0] in line:
            return Path(line.split()[-1])
    raise IngestError(
        "E-LIBAIO", f"{name} loads but cannot be located.", remedy="install libaio1 by hand."
    )


def _install() -> None:
    manager = next((entry for entry in _PACKAGES if shutil.which(entry[0])), None)
    if manager is None or os.geteuid() != 0:
        program, names = (
            (manager[0], manager[1]) if manager else ("your package manager", ["libaio"])
        )
        raise IngestError(
            "E-LIBAIO",
            "The pinned MySQL needs libaio.so.1, which this machine lacks.",
            means="Nothing was started.",
            remedy=f"run `sudo {program} install {names[-1]}` once, then this command again.",
        )
    program, names, also = manager
    if program == "apt-get":  # the system's own upgrades hold the lock for a while
        also = [*also, "-o", "DPkg::Lock::Timeout=120"]
    print(f"installing libaio (needed by MySQL) with {program} …", file=sys.stderr, flush=True)
    if program == "apt-get":
        _run([program, "update", "-q"])
    for name in names:
        if _run([program, "install", "-y", "-q", name, *also]):
            return
    raise IngestError(
        "E-LIBAIO",
        f"libaio could not be installed with {program}.",
        means="Nothing was started.",
        remedy=f"run `{program} install {names[-1]}` by hand, read what it says, then try again.",
        exit_code=Exit.FAILED,
    )


def _run(command: list[str]) -> bool:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, capture_output=True, env=env).returncode == 0
