"""One Delta table: create it, describe it, change its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from delta.tables import DeltaTable
from deltalake import Schema
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.lake.delta import lasting_commits, read_back, schema_commit, statistics_commit
from ingest.lake.delta.data_files import own_files
from ingest.lake.delta.delta_log import Action, commit_name, is_begun, lines
from ingest.lake.delta.spark_transaction import APP_ID, VERSION, delta_log
from ingest.lake.delta.table_features import kept_for
from ingest.lake.files import table_files
from ingest.lake.files.hadoop_files import HadoopFiles, raise_if_passing
from ingest.lake.files.object_files import made, opened
from ingest.lake.files.table_files import TableFiles
from ingest.model.location import delta_rs_folder, delta_rs_place, local_folder
from ingest.model.names import (
    KEY_PROPERTY,
    RESERVED_COLUMN,
    SOURCE_PROPERTY,
    TARGET_PROPERTY,
    needs_mapping,
    quoted,
)
from ingest.schema.catalog import SchemaVersion
from ingest.schema.delta_types import struct_json, type_json
from ingest.schema.evolution import Field, InPlace
from ingest.schema.mysql_types import column_type
from ingest.targets import mirror_rows, multiset_rows, registry
from ingest.targets.target import Fate, Target

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

_MAPPING = {
    "delta.columnMapping.mode": "name",
    # Column mapping alone would make a protocol of reader version 2, in which no feature has a name, and
    # deltalake's to_pyarrow_table then reads NULL for every value instead of refusing (test_readers).
    # A second feature, which every reader knows, makes it version 3.
    "delta.feature.timestampNtz": "supported",
}


@dataclass(frozen=True)
class Description:
    """A lake table: its columns (name to Delta type, ours left out), its key, its version.
    ``multiset``: its rows are told apart by their content.
    """

    columns: Mapping[str, str]
    key: tuple[str, ...]
    version: int
    multiset: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """The target that last wrote the table, or the plain one where the difference means nothing to readers."""
        return registry.noted(self.properties, keyed=not self.multiset)


class SparkTable:
    """A Delta table at a path, in one session: a ``TableHandle``, and all that is done to a table beside MERGEs.
    ``folder``: where delta-rs finds it, too, on this machine's disk; ``place``: there or in an object store. None where it does not.
    """

    def __init__(self, session: SparkSession, path: str) -> None:
        self.session = session
        self.path = path
        self.folder, self.place = delta_rs_folder(path), delta_rs_place(path)

    def describe(self) -> Description | None:
        """What the table is now, or None when there is none."""
        if not self.exists():
            return None
        schema, properties, version = self._metadata()
        types = {one.name: one.dataType.simpleString() for one in schema.fields}
        ours = types.pop(RESERVED_COLUMN)
        return Description(
            columns=types,
            key=tuple(json.loads(properties.get(KEY_PROPERTY, "[]"))),
            version=version,
            multiset="content:" in ours,
            properties=properties,
        )

    def _metadata(self) -> tuple[StructType, Mapping[str, str], int]:
        """Schema, properties, version. Where delta-rs finds it without Spark, which after a commit by delta-rs would
        have to read the log in a job.
        """
        if self.place is not None:
            table = opened(self.place)
            schema = StructType.fromJson(json.loads(table.schema().to_json()))
            return schema, table.metadata().configuration, table.version()
        snapshot, jvm = self._snapshot(), cast("Any", self.session._jvm)
        metadata = snapshot.metadata()
        schema = StructType.fromJson(json.loads(metadata.schemaString()))
        properties = jvm.scala.jdk.javaapi.CollectionConverters.asJava(metadata.configuration())
        return schema, dict(properties), int(snapshot.version())

    def schema_json(self) -> str:
        """Its columns, as its log has them."""
        return str(self._snapshot().metadata().schemaString())

    def property_of(self, name: str) -> str | None:
        """One of the table's properties."""
        return self._metadata()[1].get(name)

    @cached_property
    def _files(self) -> TableFiles | None:
        """Opened once: in an object store that is a client with connections of its own."""
        return table_files.at(self.path)

    def exists(self) -> bool:
        """True when there is a Delta table at the path."""
        if self._files is not None:
            return is_begun(self._files)
        return bool(DeltaTable.isDeltaTable(self.session, self.path))

    def create(
        self, version: SchemaVersion, key: Sequence[str], target: Target | None = None
    ) -> None:
        """Create it empty with exactly the types of a schema version; no features beyond need. ``target``: what it
        is kept as; None: the plain one.

        Where delta-rs finds it without Spark, which takes a table a third of a second and the first one several.
        """
        target = target or registry.noted({}, keyed=bool(key))
        types = {column.name: column_type(column).delta for column in version.followed}
        types[RESERVED_COLUMN] = target.meta_type
        properties = {KEY_PROPERTY: json.dumps(list(key)), SOURCE_PROPERTY: str(version.table)}
        properties |= registry.note(target)
        mapped = any(needs_mapping(column.name) for column in version.columns)
        if self.place is not None and not mapped:
            columns = struct_json([(name, type_json(type_)) for name, type_ in types.items()])
            made(self.place, Schema.from_json(json.dumps(columns)), properties)
            self.make_lasting(0)
            return
        builder = DeltaTable.createIfNotExists(self.session).location(self.path)
        for name, type_ in types.items():
            builder = builder.addColumn(name, type_)
        for name, text in {**properties, **(_MAPPING if mapped else {})}.items():
            builder = builder.property(name, text)
        builder.execute()
        self.make_lasting(0)

    def change_columns(self, change: InPlace, held: Description) -> None:
        """Add, drop, rename, reorder and widen columns in one commit that writes no data. What existing
        rows hold in new columns is NULL; a default is the caller's next commit. ``held``: the table as it is.
        """
        self._allow({field.name: field.delta for field in change.columns}, held)
        if change.mapped:
            self._set(_MAPPING, held)
        if change.widened:
            self._set({"delta.enableTypeWidening": "true"}, held)
        schema_commit.commit(self.session, self.path, change.columns)

    def rewrite(self, columns: Sequence[Field], key: Sequence[str], held: Description) -> None:
        """Write the whole table anew in one commit, each column from its expression over the old
        ones. Earlier versions stay readable under their own columns.
        """
        values = [F.expr(field.value).alias(field.name) for field in columns]
        rows = self.frame().select(*values, RESERVED_COLUMN)
        meta = mirror_rows.meta_of(rows) if key else multiset_rows.meta_of(rows)
        rows = rows.withColumn(RESERVED_COLUMN, meta)
        self._allow({field.name: field.delta for field in columns}, held)
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.save(self.path)

    def number_anew(self) -> None:
        """Of a table without a key: contents and ordinals made anew from the rows, in one commit."""
        rows = self.frame()
        self.overwrite(rows.withColumn(RESERVED_COLUMN, multiset_rows.meta_of(rows)))

    def overwrite(self, rows: DataFrame) -> None:
        """The table holds these rows, of this object's session and with the table's own columns, and no others: in one
        commit.
        """
        rows.write.format("delta").mode("overwrite").save(self.path)

    def append(self, rows: DataFrame, *, adds_columns: bool = False) -> None:
        """Add rows, of whatever session, under the identity that stands in this object's (:meth:`identified`): a writer takes
        it from the session of its rows, or as options. ``adds_columns``: those that the table does not have yet.
        """
        names = {"txnAppId": APP_ID, "txnVersion": VERSION, "userMetadata": _METADATA}
        said = {name: self.session.conf.get(key, None) for name, key in names.items()}
        options = {name: value for name, value in said.items() if value is not None}
        if adds_columns:
            options["mergeSchema"] = "true"
        rows.write.format("delta").mode("append").options(**options).save(self.path)

    def strike(self, fate: Fate) -> None:
        """Remove rows, or mark them, in one commit; none where there is no such row."""
        if fate.marks:
            self.delta().update(fate.where, dict(fate.marks))
        else:
            self.delta().delete(fate.where)

    def set_key(self, key: Sequence[str]) -> None:
        """Note the key's columns (metadata only)."""
        self._set({KEY_PROPERTY: json.dumps(list(key))})

    def set_target(self, target: Target) -> None:
        """Note what it is kept as (metadata only)."""
        self._set({TARGET_PROPERTY: target.name})

    def keep_for(self, hours: int) -> None:
        """Have the table itself say for how long its versions stay (metadata only): whoever cleans its log goes by it."""
        lasting = kept_for(hours, by_checkpoints=True)
        if not lasting.items() <= self._metadata()[1].items():
            self._set(lasting)

    def unneeded(self, hours: int) -> list[str]:
        """Names of data files and deletion vectors below the table that no version of the last hours has; what is no such file is left.
        Nothing is removed. The session has to allow less than a week.
        """
        found = self.session.sql(
            f"VACUUM {self._identifier} RETAIN {hours} HOURS DRY RUN"
        ).collect()
        root = f"{HadoopFiles(self.session, self.path).root}/"
        names = [row.path.removeprefix(root) for row in found]
        return own_files(names, self._metadata()[1])

    def small_files(self, below: int) -> list[int]:
        """Bytes of each of its files that has fewer. A job of Spark's."""
        files = DataFrame(self._snapshot().allFiles().toDF(), self.session)
        return [row.size for row in files.filter(F.col("size") < below).select("size").collect()]

    def allow_local_times(self) -> None:
        """Have the table have the feature of a ``timestamp_ntz`` (metadata only)."""
        self._set({"delta.feature.timestampNtz": "supported"})

    def _allow(self, columns: Mapping[str, str], held: Description) -> None:
        """Switch on what an existing table needs for these columns (name to Delta type); a table that
        is made with them has it from the start.
        """
        if "timestamp_ntz" in columns.values() and "timestamp_ntz" not in held.columns.values():
            self._set({"delta.feature.timestampNtz": "supported"})
        if any(map(needs_mapping, columns)):
            self._set(_MAPPING, held)

    def _set(self, properties: Mapping[str, str], held: Description | None = None) -> None:
        # A feature leaves no property behind; whatever switches one on is a commit of its own.
        lasting = {name for name in properties if not name.startswith("delta.feature.")}
        now = held.properties if held else {}
        if lasting and all(now.get(name) == properties[name] for name in lasting):
            return
        pairs = ", ".join(f"'{name}' = '{_escaped(text)}'" for name, text in properties.items())
        self.session.sql(f"ALTER TABLE {self._identifier} SET TBLPROPERTIES ({pairs})")

    def restore(self, version: int) -> None:
        """Bring the table back to one of its versions; markers are not rewound.

        Delta's RESTORE carries no identity (``tests/capability/test_delta.py``), so no fence makes it one that is skipped. It fails where
        another commit came after its look at the table. Before that only the lease can say whose the table is: ask for it right before this.
        One that slips in between all the same is somebody else's to the successor, who notices it (``other_writers.since``).
        """
        self.delta().restoreToVersion(version)
        self.make_lasting(self.version())

    @contextmanager
    def identified(self, app_id: str, version: int, note: str) -> Iterator[None]:
        """What is committed inside carries this identity.

        MERGE, UPDATE and DELETE take it only from the session's configuration, where it stays after the
        commit; a later commit under a stale one would be skipped without a word. So it is set, used once
        and unset, in a session that no other thread shares.
        """
        settings = {APP_ID: app_id, VERSION: str(version), **({_METADATA: note} if note else {})}
        for key, value in settings.items():
            self.session.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self.session.conf.unset(key)

    def delta(self) -> DeltaTable:
        """The table in this object's session, whose configuration a commit carries."""
        return DeltaTable.forPath(self.session, self.path)

    def frame(self) -> DataFrame:
        """The newest version as a DataFrame."""
        return self.session.read.format("delta").load(self.path)

    def committed(self, app_id: str) -> int | None:
        """The highest ``txnVersion`` that this table holds for an app id."""
        version = self._snapshot().transactions().get(app_id)
        return int(version.get()) if version.isDefined() else None

    def commits(self, start: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """See ``TableHandle.commits``."""
        folder = HadoopFiles(self.session, self.path)
        for version in range(start, self.version() + 1):
            text = folder.read(commit_name(version))
            of = f"version {version} of {self.path}"
            yield version, [] if text is None else lines(text.encode(), of)

    def metadata_at(self, version: int) -> Action | None:
        """See ``TableHandle.metadata_at``."""
        jvm: Any = self.session._jvm
        none = jvm.scala.Option.empty()
        try:
            log = delta_log(self.session, self.path)
            found = log.getSnapshotAt(version, none, none, False).metadata()
        except (PySparkException, Py4JJavaError) as failure:
            raise_if_passing(self.path, failure)
            return None
        properties = jvm.scala.jdk.javaapi.CollectionConverters.asJava(found.configuration())
        return {"schemaString": str(found.schemaString()), "configuration": dict(properties)}

    def read_back(self, app_id: str, version: int, start: int | None = None) -> None:
        """See ``TableHandle.read_back``: bounds that Spark leaves out or rounds."""
        read_back.read_back(self, app_id, version, start)

    def restate(self, of: int, files: Sequence[Action], marker: tuple[str, int]) -> None:
        """See ``read_back.Written``."""
        statistics_commit.commit(self.session, self.path, of, files, marker)

    def make_lasting(self, start: int) -> None:
        """See ``TableHandle.make_lasting``. An object store has done so already."""
        folder = local_folder(self.path)
        if folder is not None:
            lasting_commits.make_lasting(folder, start)

    def markers(self) -> dict[str, int]:
        """Every app id that has committed here, and its highest ``txnVersion``."""
        found = self._snapshot().transactions()
        jvm: Any = self.session._jvm
        names = jvm.scala.jdk.javaapi.CollectionConverters.asJava(found)
        return {str(name): int(version) for name, version in names.items()}

    def id(self) -> str:
        """Delta's id of the table, minted when it was made."""
        return str(self._snapshot().metadata().id())

    def version(self) -> int:
        """The newest version number."""
        return int(self._snapshot().version())

    @property
    def _identifier(self) -> str:
        return f"delta.{quoted(self.path)}"

    def _snapshot(self) -> Any:
        jvm: Any = self.session._jvm
        none = jvm.scala.Option.empty()
        return delta_log(self.session, self.path).update(False, none, none)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
