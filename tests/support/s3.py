"""A real server of S3's kind, for tests: on loopback, with generated keys, its buckets folders on this machine's disk."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from ingest.local import artefacts, process
from ingest.local.java import java_binary
from ingest.local.mysql import write_secret

BUCKET = "lake"
_PROPERTIES = """\
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={id}
s3proxy.credential={key}
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={data}
"""


@dataclass
class S3:
    """A server that runs."""

    home: Path
    port: int
    child: process.Child

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def secret(self, name: str) -> Path:
        """The file (mode 0600) that holds the `id` or the `key`."""
        return self.home / "secrets" / name

    def storage(self, endpoint: str | None = None) -> dict[str, object]:
        """As a pipeline file says it below `lake`. ``endpoint``: of whom stands before the server."""
        return {
            "endpoint": endpoint or self.endpoint,
            "access_key": {"file": str(self.secret("id"))},
            "secret_key": {"file": str(self.secret("key"))},
        }

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """The same for those who are asked without a pipeline file."""
        return {
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.secret("id").read_text(),
            "AWS_SECRET_ACCESS_KEY": self.secret("key").read_text(),
        }

    @property
    def bucket(self) -> Path:
        """Its objects as files, for whoever looks past the server."""
        return self.home / "data" / BUCKET

    def stop(self) -> None:
        process.stop(self.child, grace=5)

    def begin_again(self) -> None:
        """Behind its end: the same server, as those who use it know it."""
        self.child = _begun(self.home, self.port).child


def start(home: Path) -> S3:
    """versitygw where the PATH has one, else s3proxy. Both were seen to keep the writers of one name apart; S3Mock and moto were not."""
    for folder in ("secrets", "logs", f"data/{BUCKET}"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    for name, text in {"id": secrets.token_hex(8), "key": secrets.token_urlsafe(24)}.items():
        write_secret(home / "secrets" / name, text)
    return _begun(home, process.free_port())


def _begun(home: Path, port: int) -> S3:
    said = {name: (home / "secrets" / name).read_text() for name in ("id", "key")}
    data, environment = home / "data", dict[str, str]()
    if gateway := shutil.which("versitygw"):
        environment = {"ROOT_ACCESS_KEY": said["id"], "ROOT_SECRET_KEY": said["key"]}
        command = [
            gateway,
            "--port",
            f"127.0.0.1:{port}",
            "--region",
            "us-east-1",
            "posix",
            str(data),
        ]
    else:
        (jar,) = artefacts.jars("s3-server")
        settings = home / "secrets" / "s3proxy.properties"
        write_secret(settings, _PROPERTIES.format(port=port, data=data, **said))
        command = [java_binary(), "-Xmx256m", "-jar", str(jar), "--properties", str(settings)]
    child = process.start("s3", command, home=home, env=environment)
    running = S3(home, port, child)
    until = time.monotonic() + 60
    while time.monotonic() < until and process.returncode(child) is None:
        try:
            httpx.get(running.endpoint, timeout=2)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return running
    running.stop()
    raise AssertionError(f"the S3 server did not come up: {home / 'logs' / 's3.out'}")


@contextmanager
def environment(said: Mapping[str, str]):
    """This process's own, for a while."""
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
