"""Where downloaded servers, jars and class archives are kept, for all checkouts of a user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The shared cache: ``$INGEST_CACHE``, else ``~/.cache/ingest``."""
    chosen = os.environ.get("INGEST_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "ingest"
