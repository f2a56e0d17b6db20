"""Servers of other versions, as this machine's Debian mirror has them: unpacked beside the cache, without being installed.

    python -m tests.support.other_mysql [mysql|mariadb]      prints the path of its `mysqld`

Debian's newest suite has MySQL 9; nothing that could be had here has 8.4. `apt` checks what it fetches by the distribution's own keys.
The server runs by the C library that it was built with, which lies in the same folder.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from ingest.local.cache_folder import cache_folder

SUITE = "sid"
PACKAGES = {"mysql": "mysql-server-core", "mariadb": "mariadb-server-core"}
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_WRAPPER = """\
#!/bin/sh
root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
lib="$root/usr/lib/x86_64-linux-gnu"
exec "$lib/ld-linux-x86-64.so.2" --library-path "$lib:$root/usr/lib/mysql/private" --argv0 mysqld "$root/usr/sbin/{server}" "$@"
"""


@cache
def mysqld(kind: str = "mysql") -> Path | None:
    """Of that server; None where it is not to be had."""
    home = cache_folder() / "other-servers" / kind
    found = home / "root" / "usr" / "bin" / "mysqld"
    if found.exists():
        return found
    mirror = _mirror()
    has_apt = shutil.which("apt-get") is not None and _KEYS.exists()
    if mirror is None or not has_apt or platform.machine() != "x86_64":
        return None
    shutil.rmtree(home, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "sources"):
        (home / folder).mkdir(parents=True)
    (home / "sources" / "newest.sources").write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: {SUITE}\nComponents: main\nSigned-By: {_KEYS}\n"
    )
    (home / "status").touch()  # as where nothing is installed, so that all comes along
    if not (_apt(home, "update") and _apt(home, "-y", "-d", "install", PACKAGES[kind])):
        return None
    for package in sorted((home / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, home / "root"], check=True)
    server = "mariadbd" if kind == "mariadb" else "mysqld"
    found.unlink(missing_ok=True)
    found.write_text(_WRAPPER.replace("{server}", server))
    found.chmod(0o755)
    return found


def _apt(home: Path, *words: str) -> bool:
    settings = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": home / "sources",
        "Dir::State::lists": home / "lists",
        "Dir::State::status": home / "status",
        "Dir::Cache": home / "cache",
        "Debug::NoLocking": "1",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
    }
    said = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    return subprocess.run(["apt-get", *said, *words], capture_output=True).returncode == 0


def _mirror() -> str | None:
    """Where this machine's own packages come from."""
    for file in [*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")]:
        if file.is_file():
            found = re.search(
                r"^(?:URIs: |deb )\s*(https?://\S+/debian)/?\s", file.read_text(), re.MULTILINE
            )
            if found:
                return found[1]
    return None


if __name__ == "__main__":
    print(mysqld(*sys.argv[1:2]) or sys.exit("it is not to be had from this machine's packages"))
