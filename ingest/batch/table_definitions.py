"""Definitions of tables, as a batch reads them: what the lake can hold of them, and what the pipeline file lets pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Schemas
from ingest.model.manifest import Entry, Place
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema import ddl_policy
from ingest.schema.catalog import Catalog
from ingest.schema.set_aside import Admission, Spans


@dataclass(frozen=True)
class InForce:
    """What one batch is read under. ``note``: says where in the schema topic it looked, and which DDLs it passes over;
    ``aside``: by table, positions whose changes cannot be read.
    """

    note: Note
    catalog: Catalog
    aside: Spans

    def up_to(self, cut: Mapping[Place, int]) -> InForce:
        """The same of a batch that ends before these offsets."""
        return replace(self, note=self.note.up_to(cut)) if cut else self


class Definitions:
    """Of one pipeline, read from the schema topic as they come."""

    def __init__(self, pipeline: Pipeline, schemas: Schemas) -> None:
        self._rules = pipeline.rules
        self._schemas = schemas
        self._admission = Admission(pipeline.lake.profile)

    def streamed(self) -> Catalog:
        """All that the topic holds by now, as Debezium tells it."""
        self._schemas.read_to_end()
        return self._schemas.catalog

    def readable(self) -> tuple[Catalog, Spans]:
        """What the lake can hold of all that, and what cannot be read."""
        return self._admission.of(self.streamed())

    def known(self) -> Catalog:
        """Like :meth:`readable`, by what was read of the schema topic last, without another look at it."""
        return self._admission.of(self._schemas.catalog)[0]

    def governed(
        self, newest: Entry | None
    ) -> tuple[Catalog, Mapping[TableId, ddl_policy.Barrier]]:
        """What the lake is to follow, and where a policy holds a table. ``newest``: what is applied."""
        return ddl_policy.governed(self.readable()[0], newest.tables if newest else {}, self._rules)

    def in_force(self, note: Note, newest: Entry | None) -> InForce:
        """For the batch of this note. One that is done again sees what it saw the first time."""
        catalog, aside = self._admission.of(self.streamed(), note.schema_offset)
        states = newest.tables if newest else {}
        catalog, note = ddl_policy.in_force(
            note, catalog, self._schemas.offset, states, self._rules
        )
        return InForce(note, catalog, aside)
