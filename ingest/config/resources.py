"""Where the files beside the code are: ``connect/`` and ``sql/``, from a checkout or a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def resource(*parts: str) -> Path:
    """A file of ``connect/`` or ``sql/``. In a wheel they lie in ``ingest/_resources``."""
    for root in (_PACKAGE / "_resources", _PACKAGE.parent):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError("/".join(parts))
