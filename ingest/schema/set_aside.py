"""Tables with a column that has no exact place in the lake: set aside, while the others go on. Pure.

What such a table changes is passed over, and a gap says so: nothing of it is guessed, and the gap closes once the table
can be read and was taken again. A table that `source.tables` excludes is no concern of ours any more, whatever of it
still stands in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ingest.model.errors import IngestError
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.admission import admitted
from ingest.schema.catalog import UNKNOWN, Catalog, SchemaVersion
from ingest.schema.evolution import Profile


@dataclass(frozen=True)
class Span:
    """Changes of a table from ``start`` on, and before ``end`` (None: no end), cannot be read: ``why``, in words. ``mends``: they
    can when the connector has read the table's definition anew.
    """

    start: Position
    end: Position | None
    why: str
    mends: bool = False

    @property
    def lasts(self) -> bool:
        """True while the table is so now, and stays so whoever reads it."""
        return self.end is None and not self.mends


Spans = Mapping[TableId, Sequence[Span]]


@dataclass
class Admission:
    """Looks at each schema version once: there may be very many."""

    profile: Profile
    _looked: dict[TableId, int] = field(default_factory=dict)
    _unfit: dict[TableId, dict[int, str]] = field(default_factory=dict)
    """Each with why, by where it stands among its table's."""

    def of(self, catalog: Catalog, until: int = 0) -> tuple[Catalog, Spans]:
        """The catalog without versions that cannot be read, and from where to where they were in force. Each time it is
        given, it is the one before and more. ``until``: only what it held before an offset (0: all).
        """
        if until:
            catalog = catalog.until(until)
        for table, versions in catalog.versions.items():
            for index in range(self._looked.get(table, 0), len(versions)):
                why = _unfit(versions[index], self.profile)
                if why:
                    self._unfit.setdefault(table, {})[index] = why
                    if versions[index].kind == UNKNOWN:
                        # In one statement the table of before got another name. Its rows stay at hand until the new one's are read.
                        gone = _gives_way(versions, index)
                        self._unfit[table].update(dict.fromkeys(gone, why))
            self._looked[table] = max(len(versions), self._looked.get(table, 0))
        unfit = {table: found for table, found in self._unfit.items() if table in catalog.versions}
        if not unfit:
            return catalog, {}
        left, spans = dict(catalog.versions), {}
        for table, found in unfit.items():
            versions = catalog.versions[table]
            fits = [version for index, version in enumerate(versions) if index not in found]
            spans[table] = _spans(versions, found)
            if fits:
                left[table] = fits
            else:
                del left[table]
        return Catalog(left), spans


def _unfit(version: SchemaVersion, profile: Profile) -> str:
    try:
        admitted(version, profile)
    except IngestError as refused:
        return refused.what.removeprefix(str(version.table)).removeprefix(":").strip(" .")
    return ""


def _gives_way(versions: Sequence[SchemaVersion], index: int) -> list[int]:
    """Which of a table's versions are its end by the very statement that gave its name to another."""
    at = versions[index].position
    return [n for n, one in enumerate(versions) if one.kind == "DROP" and one.position == at]


def _spans(versions: Sequence[SchemaVersion], unfit: Mapping[int, str]) -> list[Span]:
    ordered = sorted(enumerate(versions), key=lambda each: each[1].position)
    found = []
    for number, (index, version) in enumerate(ordered):
        behind = [other.position for _, other in ordered[number + 1 :]]
        if index in unfit:
            end, mends = next(iter(behind), None), version.kind == UNKNOWN
            found.append(Span(version.position, end, unfit[index], mends))
    return found
