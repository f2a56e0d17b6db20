"""What this process runs of what reads records: which Python, which code of ours, which versions of what it stands on.

An executor that has another of them decodes by other rules than the driver decides by, and nothing else would say so.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
import pyarrow as pa

import ingest

CODE = "ingest's code"
_ON = "machine"


def held() -> dict[str, str]:
    """By name; with the machine's own name."""
    return {
        _ON: socket.gethostname(),
        "python": sys.version,
        "ingest": ingest.__version__,
        CODE: _code(Path(ingest.__file__).parent),
        "pyarrow": pa.__version__,
        "confluent-kafka": confluent_kafka.__version__,
    }


def _code(package: Path) -> str:
    """Of what the files hold: the same version is installed at another moment on each machine."""
    said = hashlib.sha256()
    for name, file in sorted(
        (one.relative_to(package).as_posix(), one) for one in package.rglob("*.py")
    ):
        text = file.read_bytes()
        said.update(f"{name} {len(text)}\n".encode() + text)
    return said.hexdigest()[:12]


def unlike(theirs: str, ours: Mapping[str, str]) -> str:
    """In which a machine differs from us, by what it has said (:func:`held`, as JSON); empty for in nothing. Of Python Spark itself sees that it is the
    same; its patches may differ.
    """
    # Code of before this was asked says its Python alone.
    found = json.loads(theirs) if theirs.startswith("{") else {}
    named = (name for name in ours if name not in (_ON, "python"))
    differ = [
        f"{name} {found.get(name, 'of an earlier version')}, here {ours[name]}"
        for name in named
        if found.get(name) != ours[name]
    ]
    return f"{found.get(_ON, 'one of them')} has {'; '.join(differ)}" if differ else ""
