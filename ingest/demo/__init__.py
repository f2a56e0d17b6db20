"""`ingest demo`: the whole promise in three minutes, on real parts, with real kills."""

from __future__ import annotations

from ingest.demo.story import Demo

__all__ = ["Demo"]
