"""Which tables a pipeline takes, and which Kafka topic carries each.

Debezium sanitises topic names: every character outside ``[A-Za-z0-9._-]`` becomes ``_``, so two
tables can silently share a topic, and Kafka itself refuses two topics that differ only in ``.``
against ``_``, upon which the whole connector stands still while it says RUNNING.
Both are found here, before anything is started. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ingest.model.errors import IngestError

TopicNames = Literal["plain", "escaped"]


@dataclass(frozen=True, order=True)
class TableId:
    """A source table: database and name, unquoted."""

    database: str
    name: str

    def __str__(self) -> str:
        return f"{_readable(self.database)}.{_readable(self.name)}"

    @classmethod
    def parse(cls, text: str) -> TableId:
        """The inverse of ``str``: ``shop.orders``, ```a.b`.c``. Raises ``ValueError``."""
        found = re.fullmatch(_ONE_NAME + r"\." + _ONE_NAME, text, re.DOTALL)
        if not found:
            raise ValueError(f"{text!r} is not `database.table`")
        quoted_database, database, quoted_name, name = found.groups()
        return cls(
            database if quoted_database is None else quoted_database.replace("``", "`"),
            name if quoted_name is None else quoted_name.replace("``", "`"),
        )


def table_or_topic(text: str) -> TableId | None:
    """The table of this name; None for a topic's, by which a record is known of which nobody knows the table: it has one part
    more.
    """
    try:
        return TableId.parse(text)
    except ValueError:
        return None


_ONE_NAME = r"(?:`((?:[^`]|``)+)`|([^.`]+))"


def _readable(name: str) -> str:
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


@dataclass(frozen=True)
class Pattern:
    """One entry of ``source.tables``: two Java-and-Python regular expressions and a sign."""

    database: str
    name: str
    excludes: bool

    def matches(self, table: TableId) -> bool:
        """True when the pattern names this table; case matters."""
        return bool(
            re.fullmatch(self.database, table.database, re.DOTALL)
            and re.fullmatch(self.name, table.name, re.DOTALL)
        )


@cache
def parse_pattern(text: str) -> Pattern:
    """``'shop.*'``, ``'!shop.tmp_?'``, ``'`my.db`.`a*b`'``. Raises ``ValueError``."""
    excludes = text.startswith("!")
    parts = _split(text.removeprefix("!"))
    if len(parts) != 2 or not all(parts):
        raise ValueError(
            f"{text!r} is not `database.table`; put backquotes around a name that holds a dot"
        )
    return Pattern(parts[0], parts[1], excludes)


def _split(text: str) -> list[str]:
    parts = [""]
    index = 0
    while index < len(text):
        char = text[index]
        if char == "`":
            end = index + 1
            name = ""
            while True:
                close = text.find("`", end)
                if close < 0:
                    raise ValueError(f"{text!r} has a backquote that is not closed")
                name += text[end:close]
                if text[close + 1 : close + 2] != "`":
                    break
                name += "`"
                end = close + 2
            parts[-1] += _literal(name)
            index = close + 1
            continue
        if char == ".":
            parts.append("")
        else:
            parts[-1] += {"*": ".*", "?": "."}.get(char) or _literal(char)
        index += 1
    return parts


def _literal(text: str) -> str:
    # Escapes that Java and Python read alike. A comma separates entries in Debezium's list, so it
    # is written as its code point; so is whitespace, which Debezium trims at the ends.
    return "".join(
        char if char.isalnum() or char == "_" else f"\\u{ord(char):04x}" for char in text
    )


def include_expression(patterns: Sequence[str]) -> str:
    """Debezium's ``table.include.list``: one expression that takes exactly what we take.

    Debezium matches without regard to case; ``(?-i)`` restores MySQL's on Linux.
    """
    parsed = [parse_pattern(pattern) for pattern in patterns]
    taken = "|".join(f"{p.database}\\.{p.name}" for p in parsed if not p.excludes)
    left = "|".join(f"{p.database}\\.{p.name}" for p in parsed if p.excludes)
    return f"(?-i)(?!(?:{left})$)(?:{taken})" if left else f"(?-i)(?:{taken})"


def captured(tables: Iterable[TableId], patterns: Sequence[str]) -> list[TableId]:
    """The tables that the patterns take: named by one, excluded by none."""
    parsed = [parse_pattern(pattern) for pattern in patterns]
    return [
        table
        for table in sorted(tables)
        if any(p.matches(table) for p in parsed if not p.excludes)
        and not any(p.matches(table) for p in parsed if p.excludes)
    ]


def topic_of(pipeline: str, table: TableId, names: TopicNames) -> str:
    """The topic that Debezium writes a table's changes to."""
    return _sanitised(f"{pipeline}.{table.database}.{table.name}", names)


def topic_prefix(pipeline: str, names: TopicNames) -> str:
    """What the name of each data topic of a pipeline begins with, and no other topic's.

    Debezium sanitises the whole name, so escaped topics of ``my_pipe`` begin with ``my_u005fpipe.``. Its schema-change
    topic is the pipeline's name as it is, without a dot.
    """
    return _sanitised(f"{pipeline}.", names)


def topic_pattern(pipeline: str, names: TopicNames) -> str:
    """Spark's ``subscribePattern`` for all data topics of a pipeline, and no other topic."""
    return rf"{re.escape(topic_prefix(pipeline, names))}.+\..+"


def _sanitised(name: str, names: TopicNames) -> str:
    if names == "plain":
        return re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return re.sub(r"[^A-Za-z0-9.-]", lambda found: _escaped(ord(found[0])), name)


def _escaped(char: int) -> str:
    # Debezium puts zeros in front of one or two hexadecimal digits and of no others: U+0416 is `_u416`.
    digits = f"{char:x}"
    return f"_u00{digits}" if len(digits) <= 2 else f"_u{digits}"


def refuse_collisions(pipeline: str, tables: Iterable[TableId], names: TopicNames) -> None:
    """Raise :class:`IngestError` when two tables would share a topic or Kafka would refuse one."""
    seen: dict[str, TableId] = {}
    for table in tables:
        topic = topic_of(pipeline, table, names)
        other = seen.setdefault(topic.replace(".", "_"), table)
        if other != table:
            raise IngestError(
                "E-TOPIC-COLLISION",
                f"The tables {_shown(other)} and {_shown(table)} would both be carried by the "
                f"Kafka topic {topic}.",
                means="Their rows could no longer be told apart; nothing was started.",
                remedy="set `topic_names: escaped` below `source` in the pipeline file, and give the pipeline another `name` and "
                "`lake.path` if it has run: what waits in the topics of before would not be read"
                if names == "plain"
                else "exclude one of them with a `!database.table` pattern and take it in a "
                "pipeline of its own.",
            )
        if len(topic) > 249:
            raise IngestError(
                "E-TOPIC-LENGTH",
                f"The topic of {_shown(table)} would have {len(topic)} characters; "
                "Kafka allows 249.",
                means="Nothing was started.",
                remedy="choose a shorter pipeline name or `topic_names: plain`.",
            )


def _shown(table: TableId) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in (table.database, table.name))
