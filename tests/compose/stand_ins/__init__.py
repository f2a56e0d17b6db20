"""Images that stand for the public ones where those cannot be had: built on a Debian of this machine's mirror.

They test docker-compose.yml (names, ports, secrets, users, the order of health), not the vendors' images. None takes a public
image's name, so that nothing else on the machine finds them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ingest.local import artefacts

NAME = "ingest-stand-in"
MADE = {"mysql": "mysql:8.4", "kafka": "apache/kafka", "connect": "debezium/connect"}
"""The service of the file, and whose image its stand-in is for."""
_HERE = Path(__file__).parent
_CERTIFICATES = Path("/usr/local/share/ca-certificates")


def build() -> None:
    """Each image that is not there; needs root, debootstrap and a Docker engine."""
    if not _is_there("debian"):
        _debian()
    with tempfile.TemporaryDirectory(prefix="ingest-images-") as folder:
        context = Path(folder) / "context"
        shutil.copytree(_HERE, context)
        for kind, groups in {
            "kafka": ("kafka", "logging"),
            "connect": ("connect", "logging"),
        }.items():
            (context / kind).mkdir()
            for jar in {
                jar.name: jar for group in groups for jar in artefacts.jars(group)
            }.values():
                shutil.copy(jar, context / kind)
        plugin = artefacts.debezium_plugin() / "debezium-connector-mysql"
        shutil.copytree(plugin, context / "debezium")
        for kind in ("base", "python", *MADE):
            print(f"  image {NAME}/{kind}", flush=True)
            file = context / f"{kind}.Dockerfile"
            _run(
                "docker",
                "build",
                "-q",
                "--network=host",
                "-t",
                f"{NAME}/{kind}",
                "-f",
                file,
                context,
            )


def override() -> dict[str, object]:
    """What a second compose file says, so that the first one runs with them."""
    services: dict[str, object] = {
        service: {"image": f"{NAME}/{service}", "pull_policy": "never"} for service in MADE
    }
    services["spark"] = {"build": {"network": "host", "args": {"PYTHON": f"{NAME}/python"}}}
    return {"services": services}


def _debian() -> None:
    print("  a Debian to build on", flush=True)
    with tempfile.TemporaryDirectory(prefix="ingest-debian-") as folder:
        root = Path(folder) / "root"
        _run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root)
        if _CERTIFICATES.exists():
            shutil.copytree(
                _CERTIFICATES, root / str(_CERTIFICATES).lstrip("/"), dirs_exist_ok=True
            )
        packed = Path(folder) / "root.tar"
        _run("tar", "-C", root, "-cf", packed, ".")
        _run("docker", "import", packed, f"{NAME}/debian")


def _is_there(kind: str) -> bool:
    found = subprocess.run(
        ["docker", "image", "inspect", f"{NAME}/{kind}"], capture_output=True, check=False
    )
    return found.returncode == 0


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\n{(done.stdout + done.stderr)[-3000:]}")
