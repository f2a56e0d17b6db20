"""Which format a lake is in. A later one, or one from before the first that can be brought over, is refused in a sentence, before
anything is touched.

What differs between formats, and how an earlier one is brought over, is ``upgrade``'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import SparkSession

from ingest.lake.files.object_files import opened
from ingest.lake.files.storage import files_at
from ingest.model import manifest
from ingest.model.errors import IngestError
from ingest.model.location import within_reach
from ingest.model.names import manifest_path, upgrade_path
from ingest.schema.delta_types import fields_json

LABELS, FORMAT = 3, 6
"""2: contents and statistics are put right; 3 (``LABELS``): labels that a snapshot has read as NULL, too; 4: a row of the manifest may
hold only what differs from the one before (``part_rows``), which the versions before would take for all there is. A lake of 3 is
one of 4 of which all rows are whole. 5: a snapshot of a table may wait in Kafka (``TableState.hidden``), behind which the versions before
would read on as if it was applied; and a batch may be one that takes such a one in (``Note.whole``). In a lake of 4 none waits. 6: a table's
state names the reading that its rows are of (``steps.reading``), which to the versions before is another run's; that of a lake of 5 names the run.
"""

_NOTE = "done.json"


@dataclass(frozen=True)
class Found:
    """``noted``: the format that the lake says it has, 0 where it says none; ``lacking``: what the rows of its manifest do
    not have that is read from them.
    """

    noted: int
    lacking: tuple[str, ...] = ()


def refuse_other(lake: str) -> None:
    """Raises :class:`IngestError` (``E-LAKE-NEWER``, ``E-LAKE-OLDER``). In HDFS the note is read through
    Spark: a job sees it, a command without Spark goes by the manifest alone.
    """
    reached = within_reach(lake) or SparkSession.getActiveSession() is not None
    failure = refusal(lake, Found(noted(lake) if reached else 0, tuple(_lacking(lake))))
    if failure is not None:
        raise failure


def refusal(lake: str, found: Found) -> IngestError | None:
    """Why a lake is not gone on with; None where it is. Pure."""
    if found.noted > FORMAT:
        return IngestError(
            "E-LAKE-NEWER",
            f"The lake {lake} was written by a newer version of ingest: it has format {found.noted}, and this one knows "
            f"those up to {FORMAT}.",
            means="This version would not see what the newer one keeps there; nothing was touched.",
            remedy="run the newer version again.",
        )
    if found.lacking:
        return IngestError(
            "E-LAKE-OLDER",
            f"The lake {lake} was filled by a version of ingest that is too old to be brought over: its manifest has no "
            f"{', '.join(found.lacking)}.",
            means="What of the source it holds cannot be read from that; nothing was touched.",
            remedy="run the version that filled it, or fill a new lake: choose another `lake.path`, and take every table again "
            "with `ingest resync FILE --all`.",
        )
    return None


def noted(lake: str) -> int:
    """The format that a lake says it has; 0 where it says none, as those of before the first note."""
    text = files_at(upgrade_path(lake)).read(_NOTE)
    try:
        return int(json.loads(text or "")["format"])
    except (ValueError, KeyError, TypeError):
        return 0


def note(lake: str) -> None:
    """All is brought over to this format."""
    files_at(upgrade_path(lake)).write(_NOTE, f"{json.dumps({'format': FORMAT})}\n")


def lacking(required: Mapping[str, Any], found: Mapping[str, Any], of: str = "") -> Iterator[str]:
    """Names of fields, at any depth, that one Delta schema asks for and the other has not. Pure."""
    there = {field["name"]: field["type"] for field in found.get("fields", ())}
    for field in required.get("fields", ()):
        name = f"{of}{field['name']}"
        if field["name"] not in there:
            yield name
        else:
            yield from lacking(_struct(field["type"]), _struct(there[field["name"]]), f"{name}.")


def _struct(type_: Any) -> Mapping[str, Any]:
    """The struct that a type is, or is an array of; an empty one for all others."""
    while isinstance(type_, dict) and type_.get("type") == "array":
        type_ = type_["elementType"]
    return type_ if isinstance(type_, dict) else {}


def _lacking(lake: str) -> Iterator[str]:
    try:
        schema = json.loads(opened(manifest_path(lake)).schema().to_json())
    except TableNotFoundError:
        return
    except DeltaError:  # torn by a power cut, which is mended first
        return
    yield from lacking(fields_json(manifest.FIRST_SCHEMA), schema)
