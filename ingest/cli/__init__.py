"""The commands: parsing and printing only. Each module here is one group of commands."""

from __future__ import annotations

from ingest.cli.app import main

__all__ = ["main"]
