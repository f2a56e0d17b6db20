"""Disks that take nothing more, for real and without any rights: a limit of this process's, and a small disk of its own."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ingest.lake.files import disk_failure
from ingest.lake.files.storage import LocalFiles
from ingest.model.errors import IngestError
from ingest.start.preflight import refuse_unwritable
from tests.support.direct_lake import DirectLake


@contextmanager
def no_room() -> Iterator[None]:
    """Files can be made and hold nothing, as on a full disk. The error is EFBIG, the only one of a disk's that any user
    can bring about.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def on_a_full_disk(folder: Path) -> dict[str, Any]:
    """What ``acts`` come to on a full disk of 1 MB in a space of mounts of its own; skips where none may be made."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", __name__, folder],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    if done.returncode:
        assert "Traceback" not in done.stderr, done.stderr
        pytest.skip(f"no disk of one's own can be mounted here: {done.stderr[-200:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(folder: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder])
    if mounted.returncode:
        sys.exit(mounted.returncode)
    lake = DirectLake(folder, {"id": pa.int64()})
    lake.append({"id": [1]})
    filler = folder / "filler"
    _fill(filler)
    files = LocalFiles(str(folder / "lease"))
    acts: dict[str, Callable[[], object]] = {
        "write": lambda: files.write("1.beat", "x" * 9999),
        "create": lambda: files.create("1.json", "x" * 9999),
        "start": lambda: refuse_unwritable(str(folder)),
        "merge": lambda: lake.merge({"id": [1]}),
        "delta-rs": lambda: write_deltalake(str(lake.path), lake.rows({"id": [2]}), mode="append"),
    }
    filler.unlink()
    files.write("made", "")  # the folder itself takes room
    _fill(filler)
    found = {name: _came_to(act, str(folder)) for name, act in acts.items()}
    left = [str(one) for one in folder.rglob("*") if one.name.endswith(".part")]
    filler.unlink()
    lake.append({"id": [3]})
    rows = sorted(lake.values("id"))
    sys.stdout.write(json.dumps({"came to": found, "left": left, "rows": rows}))


def _fill(filler: Path) -> None:
    taken = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(taken, b"x" * 4096)
    except OSError:
        os.close(taken)


def _came_to(act: Callable[[], object], lake: str) -> list[str]:
    """Code and sentence of the error of ours that it ends by, and the kind of failure."""
    try:
        act()
    except IngestError as failure:
        return [failure.code, failure.what, str(int(failure.exit_code))]
    except Exception as failure:  # noqa: BLE001 (whatever it is, it is what is asked for)
        told = disk_failure.of_disk(failure, lake)
        return [told.code, told.what, type(failure).__name__] if told else [repr(failure)]
    return ["nothing"]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
