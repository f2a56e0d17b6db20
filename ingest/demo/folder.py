"""The demo's folder: what the demo before has left there goes, and nothing else does."""

from __future__ import annotations

import shutil
from pathlib import Path

from ingest.local.stack import Stack
from ingest.model.errors import IngestError


def empty(stack: Stack, lake: Path, pipeline_file: Path) -> None:
    """Delete the stack's data, the lake and the pipeline file. Raises :class:`IngestError` for a lake or a file that no
    demo has made.
    """
    if not stack.exists:  # as behind `ingest local reset`, too
        _refuse_others(lake, pipeline_file)
    stack.reset()
    shutil.rmtree(lake, ignore_errors=True)
    pipeline_file.unlink(missing_ok=True)


def _refuse_others(lake: Path, pipeline_file: Path) -> None:
    others = []
    if lake.exists() and not (lake / "_ingest").exists():
        others.append(lake)
    if pipeline_file.exists():
        said = pipeline_file.read_text(encoding="utf-8", errors="replace")
        others += [] if str(lake) in said else [pipeline_file]
    if others:
        raise IngestError(
            "E-DEMO-HOME",
            f"{' and '.join(map(str, others))} would have been deleted, and no demo has made that.",
            means="Nothing was deleted.",
            remedy="choose another folder with `--home`.",
        )
