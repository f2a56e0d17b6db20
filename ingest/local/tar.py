"""Unpacking a tar file that is trusted: its hash is pinned, or it is of this project's own."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

_TRUSTS_NOBODY = hasattr(tarfile, "data_filter")
"""Python 3.10.12, 3.11.4, 3.12 and later; Debian 12 has 3.11.2."""


def unpack(
    archive: tarfile.TarFile, folder: Path, members: Sequence[tarfile.TarInfo] | None = None
) -> None:
    """Into a folder, as files of this user's. ``members``: these alone."""
    chosen = archive.getmembers() if members is None else members
    if _TRUSTS_NOBODY:
        archive.extractall(folder, members=chosen, filter="data")
        return
    for one in chosen:  # else root gives each to whomever the archive names
        one.uid, one.gid, one.uname, one.gname = os.getuid(), os.getgid(), "", ""
    archive.extractall(folder, members=chosen)  # noqa: S202 - its hash was looked at
