"""From a lake table's columns and a new schema version to a plan. Pure.

Three ways: nothing to do, the columns changed in place (one commit that writes no data), or the table
to rewrite in one commit, each column from an expression over the old ones. What only MySQL knows (the value that an expression
default gave to existing rows, a conversion that may round or cut) is named, and the table is taken
again; until then the plan keeps what is known to be right and leaves the rest NULL under an open gap.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard

from ingest.model.names import needs_mapping, quoted
from ingest.schema import ddl
from ingest.schema.catalog import SchemaVersion
from ingest.schema.defaults import stored
from ingest.schema.mysql_types import Column, Kind, column_type
from ingest.schema.type_changes import delta_widens, is_alike, keeps_values, plain, widens

_IMPLICIT = {
    Kind.INTEGER: "0",
    Kind.TRUTH: "0",
    Kind.UNSIGNED_BIGINT: "0",
    Kind.DECIMAL: "0",
    Kind.FLOAT: "0",
    Kind.DOUBLE: "0",
    Kind.ROUGH: "0",
    Kind.TEXT: "",
}
"""What MySQL gives existing rows in a new column that is NOT NULL and has no default."""


Profile = Literal["standard", "compat"]
"""``compat``: neither column mapping nor type widening nor deletion vectors, so what would need them is a rewrite."""


@dataclass(frozen=True)
class Field:
    """A column as it will be: name, Delta type, its value as SQL over the old columns, and the old column
    that it is, under whatever name (None: a new one).
    """

    name: str
    delta: str
    value: str
    origin: str | None = None

    @property
    def renamed(self) -> bool:
        """True for an old column under another name."""
        return self.origin not in (None, self.name)

    @property
    def widened(self) -> bool:
        """True for an old column in a type that holds all of its values."""
        return self.origin is not None and self.value != quoted(self.origin)


@dataclass(frozen=True)
class InPlace:
    """All columns of the table, in the source's order, by a commit that writes no data.

    ``defaults``: what existing rows get in some new columns, as text. ``mapped``: column mapping is
    needed, since a name goes or changes. ``widened``: type widening is.
    """

    columns: tuple[Field, ...]
    defaults: tuple[tuple[str, str], ...] = ()
    mapped: bool = False
    widened: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def added(self) -> list[str]:
        """Names of the new columns."""
        return [column.name for column in self.columns if column.origin is None]


@dataclass(frozen=True)
class Rewrite:
    """All columns of the table, in the source's order. ``unknown``: what only MySQL knows, in words."""

    columns: tuple[Field, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nothing:
    """The lake's columns already fit."""

    unknown: tuple[str, ...] = ()


Plan = InPlace | Rewrite | Nothing


@dataclass(frozen=True)
class Held:
    """The table as the lake holds it. ``columns``: name to Delta type, without ours; ``multiset``:
    rows are told apart by their content, so a changed column changes what every row is.
    """

    columns: Mapping[str, str]
    multiset: bool = False


def plan(
    held: Held,
    version: SchemaVersion,
    previous: Sequence[Column] = (),
    *,
    keyed: bool = True,
    profile: Profile = "standard",
    outlives: bool = False,
) -> Plan:
    """Compare the lake's table with a schema version; ``previous``: the columns of the one before,
    when ``version`` is a DDL that has just happened; ``keyed``: the source's table has a key now; ``outlives``: the lake's keeps
    rows that the source no longer has, so where a DDL has only made rows go, as a TRUNCATE does, nothing is missing.
    """
    said = ddl.column_changes(version.ddl) if previous else ddl.ColumnChanges()
    before = {column.name.lower(): column for column in previous}
    others = _others(version, previous, said)
    computed = said.recomputed | {name for name, word in version.computes if word in others}
    fields, defaults, unknown = [], [], []
    for column in version.followed:
        delta = column_type(column).delta
        origin = said.origin(column.name, list(held.columns))
        if origin is None:
            default, why = default_of(column, said)
            if default is not None:
                defaults.append((column.name, default))
            fields.append(Field(column.name, delta, _literal(default, delta)))
        else:
            old = before.get(origin.lower())
            field, why = _converted(origin, held.columns[origin], old, column, grows=said.grows)
            if not why and version.kind == "ALTER" and _came_otherwise(old, column):
                why = f"what {origin!r} held, of which something else has come"
            if not why and column.name.lower() in computed:
                why = f"what it computes in {column.name!r}"
            if not why and _fills_null(old, column):
                why = f"what NOT NULL made of NULL in {column.name!r}"
            fields.append(field)
        unknown += [why] if why else []
    if previous and version.unlogged and not (outlives and version.unlogged in ddl.ONLY_GO):
        unknown.append(f"which rows are there behind {version.unlogged}")
    kept = [name for name in version.kept if name in held.columns]
    fields += [Field(name, held.columns[name], quoted(name), name) for name in kept]
    gone = set(held.columns) - {field.origin for field in fields}
    renamed = any(field.renamed for field in fields)
    widened = [field for field in fields if field.widened]
    another = not keyed and list(held.columns) != [field.name for field in fields]
    if another or held.multiset == keyed or (widened and not keyed):
        return Rewrite(tuple(fields), tuple(unknown))
    if not (gone or renamed or widened or len(fields) != len(held.columns)):
        return Nothing(tuple(unknown))
    cast = all(delta_widens(held.columns[f.origin], f.delta) for f in widened if f.origin)
    mapped = bool(gone or renamed)
    if not cast or (profile == "compat" and (mapped or widened)):
        return Rewrite(tuple(fields), tuple(unknown))
    return InPlace(tuple(fields), tuple(defaults), mapped, bool(widened), tuple(unknown))


SMALL = 64 * 2**20
"""Bytes of a table's files that are written anew rather than given a feature: some seconds, once."""

_FEATURES = ("columnMapping", "typeWidening")


def is_written_anew(plan: Plan, size: int, features: Collection[str]) -> TypeGuard[InPlace]:
    """Whether a table of so many bytes that has these features is written anew though it could be changed in place. A small one stays plain
    so: column mapping and type widening shut out readers, and the latter delta-rs as a writer, so that each MERGE would be
    Spark's from there on.
    """
    if not isinstance(plan, InPlace) or not (plan.mapped or plan.widened) or size > SMALL:
        return False
    # A name may need column mapping by itself.
    named = any(needs_mapping(column.name) for column in plan.columns)
    return not (named or any(one.startswith(_FEATURES) for one in features))


def needed_by(plan: InPlace) -> frozenset[str]:
    """Features that a table has once it was changed in place."""
    return frozenset(
        name for name, is_ in zip(_FEATURES, (plan.mapped, plan.widened), strict=True) if is_
    )


def _came_otherwise(old: Column | None, new: Column) -> bool:
    """True when values came in a form that is not MySQL's, and a statement has changed the type: nobody would look at
    them any more, as the new type is MySQL's own. A CREATE says that the table was read anew.
    """
    if old is None or column_type(new).kind is column_type(old).kind:
        return False
    return column_type(old).kind in (Kind.TRUTH, Kind.ROUGH, Kind.LOST)


def _others(
    version: SchemaVersion, previous: Sequence[Column], said: ddl.ColumnChanges
) -> set[str]:
    """Columns, in lower case, of which an expression may make something else now: of another form, or texts that may have
    got another collation, which no schema record tells.
    """
    before = {column.name: column for column in previous}
    found = set()
    for column in version.columns:
        name, origin = column.name.lower(), said.origin(column.name, list(before))
        collates = column.charset is not None and (said.converts or name in said.told)
        if origin and (collates or not is_alike(before[origin], column)):
            found.add(name)
    return found


def _fills_null(old: Column | None, new: Column) -> bool:
    """True when MySQL, unless its session is strict, has put a value in the place of each NULL; a PRIMARY KEY does that to
    its columns as NOT NULL does.
    """
    return old is not None and old.optional and not new.optional


def held_by(version: SchemaVersion, *, multiset: bool) -> Held:
    """A table of the lake as a schema version has left it; what type a kept column has is not known."""
    columns = {column.name: column_type(column).delta for column in version.followed}
    return Held({**columns, **dict.fromkeys(version.kept, "string")}, multiset)


def changes_values(old: Column, new: Column, said: ddl.ColumnChanges) -> bool:
    """True when values of a column can be others, or of another Delta type, once a statement has changed it."""
    same = plain(column_type(old).delta) == plain(column_type(new).delta)
    return not (same and keeps_values(old, new, grows=said.grows))


def default_of(column: Column, said: ddl.ColumnChanges) -> tuple[str | None, str]:
    """What existing rows hold in a new column, as text (None: NULL), and why nobody can say.

    How MySQL stores a default depends on the column's type and on the session. So only the few forms that mean the same
    everywhere are used, and they are read from the statement itself. The default that Debezium reports cannot be trusted
    (it reads ``x'41'`` as 41 and ``0x41`` as 4).
    """
    kind, name = column_type(column).kind, column.name.lower()
    nobody = f"what existing rows hold in the new column {column.name!r}"
    if name in said.computed or column.generated:
        return None, nobody
    if (constant := said.defaults.get(name)) is not None:
        found = stored(constant, column)
        return found, "" if found is not None else nobody
    if column.default is not None or name not in said.added:
        return None, nobody
    if column.optional:
        return None, ""
    if kind in _IMPLICIT and not column.labels:
        return _IMPLICIT[kind], ""
    return None, nobody


def _literal(text: str | None, delta: str) -> str:
    if text is None:
        return f"CAST(NULL AS {delta})"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{escaped}' AS {delta})"


def _converted(
    origin: str, delta: str, old: Column | None, new: Column, *, grows: bool
) -> tuple[Field, str]:
    """A column that was there before, and what of its values only MySQL knows."""
    kind = column_type(new)
    same = plain(delta) == plain(kind.delta)
    if same and (old is None or keeps_values(old, new, grows=grows)):
        return Field(new.name, kind.delta, quoted(origin), origin), ""
    if not same and widens(plain(delta), plain(kind.delta), old, new):
        value = f"CAST({quoted(origin)} AS {kind.delta})"
        return Field(new.name, kind.delta, value, origin), ""
    why = f"what {new.type_name} made of the values of {origin!r}"
    if same:
        return Field(new.name, kind.delta, quoted(origin), origin), why
    return Field(new.name, kind.delta, _literal(None, kind.delta)), why
