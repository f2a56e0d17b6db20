"""A table that somebody has restored by time, as Spark leaves it: the log names no version, and a time without a zone."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from deltalake import DeltaTable

from ingest.lake.delta import delta_log


def restore_by_time(table: Path, version: int, zone: str = "America/New_York") -> int:
    """Back to a version, by a Java process with its clock in this zone; returns the version that the RESTORE has made."""
    (of_then,) = (one for one in DeltaTable(table).history() if one["version"] == version)
    at = datetime.fromtimestamp(of_then["timestamp"] / 1000, ZoneInfo(zone))
    DeltaTable(table).restore(version)
    newest = delta_log.newest(table)
    actions = delta_log.read(table, newest)
    assert actions is not None
    (info,) = (one["commitInfo"] for one in actions if "commitInfo" in one)
    said = at.replace(tzinfo=None).isoformat(" ", "milliseconds")
    info["operationParameters"] = {"version": None, "timestamp": said}
    (table / delta_log.commit_name(newest)).unlink()
    assert delta_log.write(table, newest, actions)
    return newest
