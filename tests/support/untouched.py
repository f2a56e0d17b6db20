"""What is in a folder, so that a test can say that nothing there was touched."""

from __future__ import annotations

from pathlib import Path


def everything(folder: Path) -> dict[str, bytes | None]:
    """By name below it: what each file holds, None for a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
