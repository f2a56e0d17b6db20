"""Packages of the registries that hold an application's SQL, each pinned by version and SHA-256.

None of it is in this repository: it is fetched once, into the artefact cache, and verified before each use.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from ingest.local import artefacts
from ingest.local.cache_folder import cache_folder
from ingest.local.one_at_a_time import only_one
from ingest.model.errors import IngestError

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "applications.lock"
PYTHON = ROOT / ".venv" / "applications"


class Unavailable(Exception):
    """A registry does not have it, or cannot be reached."""


class Package(Protocol):
    def text(self, member: str) -> str:
        """A file in it. Raises ``Unavailable``."""
        ...


@dataclass(frozen=True)
class Maven:
    """A jar or an archive of Maven Central."""

    artefact: artefacts.Artefact

    def text(self, member: str) -> str:
        try:
            artefacts.have([self.artefact])
        except IngestError as refused:
            if refused.code != "E-ARTEFACT-ABSENT":
                raise
            raise Unavailable(str(refused)) from refused
        if self.artefact.type == "jar":
            with zipfile.ZipFile(self.artefact.path) as archive:
                return archive.read(member).decode()
        with tarfile.open(self.artefact.path) as archive:
            return _member(archive, member)


@dataclass(frozen=True)
class Debian:
    """A package of a Debian release; a release replaces packages, so an old one may be gone for good."""

    name: str
    version: str
    release: str
    sha256: str
    architecture: str = "amd64"

    @property
    def path(self) -> Path:
        version = self.version.replace(":", "%3a")
        return cache_folder() / "debian" / f"{self.name}_{version}_{self.release}.deb"

    def text(self, member: str) -> str:
        if not self.path.exists():
            with only_one(self.path):
                if not self.path.exists():
                    self._fetch()
        found = hashlib.sha256(self.path.read_bytes()).hexdigest()
        assert found == self.sha256, f"{self.path} is not what is pinned: {found}"
        tar = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", self.path], capture_output=True, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(tar.stdout)) as archive:
            return _member(archive, f"./{member}")

    def _fetch(self) -> None:
        if not shutil.which("apt-get"):
            raise Unavailable("no apt-get here, to fetch packages of Debian with")
        folder = self.path.parent / self.release
        for part in ("lists/partial", "cache/archives/partial", "sources", "got"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        _sources(self.release, folder / "sources")
        options = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": folder / "sources",
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "root",
        }
        apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
        for words in (["update"], ["download", f"{self.name}:amd64={self.version}"]):
            done = subprocess.run(
                [*apt, *words], cwd=folder / "got", capture_output=True, text=True
            )
        if done.returncode:
            raise Unavailable(f"{self.name} {self.version}: {done.stderr.strip()[-300:]}")
        (got,) = (folder / "got").glob(f"{self.name}_*.deb")
        got.replace(self.path)


def _sources(release: str, folder: Path) -> None:
    """This machine's own sources of Debian, of another release."""
    for file in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        if file.exists():
            releases = "bullseye|bookworm|trixie|forky"
            text = re.sub(rf"\b({releases})\b", release, file.read_text(encoding="utf-8"))
            (folder / file.name).write_text(text, encoding="utf-8")
            return
    raise Unavailable("this machine names no source of Debian packages")


def _member(archive: tarfile.TarFile, member: str) -> str:
    file = archive.extractfile(member)
    assert file is not None, member
    return file.read().decode()


@cache
def python_packages() -> Path:
    """The folder with the applications of PyPI, from their own lock, beside .venv's packages."""
    stamp = PYTHON / LOCK.name
    if not stamp.exists() or stamp.read_text() != LOCK.read_text():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        to = ["--no-input", "--upgrade", "--target", str(PYTHON)]
        done = subprocess.run(
            [*pip, *to, "--require-hashes", "-r", str(LOCK)], capture_output=True, text=True
        )
        if done.returncode:
            raise Unavailable(f"PyPI: {done.stderr.strip()[-300:]}")
        stamp.write_text(LOCK.read_text())
    return PYTHON
