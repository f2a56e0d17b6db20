"""What the text of a DDL says and the column lists of its schema record do not. Pure.

Debezium sends the full new column list with each ALTER; which of the columns is an old one under a
new name, or a new one under an old name, stands only in the statement (facts.md A2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ingest.topics import TableId

_TOKEN = re.compile(
    r"""(?xs)
    (?P<skip> \s+ | /\*.*?\*/ | \#[^\n]* | --\s[^\n]* )
  | (?P<name> `(?:[^`]|``)*` )
  | (?P<text> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
  | (?P<word> [\w$]+ )
  | (?P<sign> . )
    """
)
_NOT_A_COLUMN = {
    "INDEX",
    "KEY",
    "PRIMARY",
    "FOREIGN",
    "CHECK",
    "CONSTRAINT",
    "PARTITION",
    "UNIQUE",
    "FULLTEXT",
    "SPATIAL",
}


@dataclass(frozen=True)
class Token:
    """A word, a name, a text or a sign. ``quoted`` names are never keywords."""

    text: str
    quoted: bool = False

    def says(self, *words: str) -> bool:
        """True when it is one of these keywords."""
        return not self.quoted and self.text.upper() in words


@dataclass(frozen=True)
class ColumnChanges:
    """All names in lower case. ``renamed``: old name to new. ``dropped``: such a name may be added
    again by the same statement, as another column. ``computed``: added with a value that MySQL
    computes for each row (an expression as default, AUTO_INCREMENT, a generated column).
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()

    def origin(self, column: str, before: Sequence[str]) -> str | None:
        """Under which of these names a column stands before the statement; its own when a crash has
        left it renamed already; None for a new one.
        """
        names = {name.lower(): name for name in before}
        old = {new: old for old, new in self.renamed.items()}.get(column.lower())
        if old is not None:
            return names.get(old) or (column if column in before else None)
        if column.lower() in self.dropped or column.lower() in self.renamed:
            return None
        return names.get(column.lower())


def column_changes(statement: str) -> ColumnChanges:
    """From an ALTER TABLE; empty for every other statement."""
    renamed: dict[str, str] = {}
    dropped: set[str] = set()
    computed: set[str] = set()
    for clause in _clauses(statement):
        computed |= {words[0].text.lower() for words in _added(clause) if _is_computed(words)}
        words = [token for token in clause if not token.says("COLUMN")]
        if len(words) >= 4 and words[0].says("RENAME") and words[2].says("TO"):
            if not words[1].says("INDEX", "KEY"):
                renamed[words[1].text.lower()] = words[3].text.lower()
        elif len(words) >= 3 and words[0].says("CHANGE"):
            renamed[words[1].text.lower()] = words[2].text.lower()
        elif len(words) >= 2 and words[0].says("DROP") and not words[1].says(*_NOT_A_COLUMN):
            dropped.add(words[1].text.lower())
    moved = {old: new for old, new in renamed.items() if old != new}
    return ColumnChanges(moved, frozenset(dropped), frozenset(computed))


def _added(clause: list[Token]) -> Iterator[list[Token]]:
    """The definitions of an ADD clause, each from the column's name on."""
    words = [token for token in clause if not token.says("COLUMN")]
    if len(words) < 2 or not words[0].says("ADD") or words[1].says(*_NOT_A_COLUMN):
        return
    if words[1].text == "(" and not words[1].quoted:
        yield from (part for part in _parts(words[2:-1]) if part)
    else:
        yield words[1:]


def _is_computed(definition: list[Token]) -> bool:
    for token, following in zip(definition[1:], [*definition[2:], Token("")], strict=True):
        if token.says("AUTO_INCREMENT", "GENERATED", "AS", "SERIAL"):
            return True
        if token.says("DEFAULT") and (following.text == "(" or following.says(*_NOW)):
            return True
    return False


_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


def renamed_tables(statement: str, database: str) -> list[tuple[TableId, TableId]]:
    """(old, new) of a RENAME TABLE or ALTER TABLE … RENAME TO, in the order in which they happen."""
    tokens = list(_tokens(statement))
    if len(tokens) > 1 and tokens[0].says("RENAME") and tokens[1].says("TABLE", "TABLES"):
        return list(_pairs(tokens[2:], database))
    if len(tokens) > 1 and tokens[0].says("ALTER"):
        old, _ = _table(tokens[2:], database)
        for clause in _clauses(statement):
            if clause and clause[0].says("RENAME") and len(clause) > 1:
                words = (
                    clause[2:]
                    if clause[1].says("TO", "AS") or clause[1].text == "="
                    else clause[1:]
                )
                if not clause[1].says("COLUMN", "INDEX", "KEY") and words:
                    return [(old, _table(words, database)[0])]
    return []


def dropped_database(statement: str) -> str | None:
    """The database that a DROP DATABASE names; its tables get no record of their own."""
    words = [token for token in _tokens(statement) if not token.says("IF", "EXISTS")]
    if len(words) >= 3 and words[0].says("DROP") and words[1].says("DATABASE", "SCHEMA"):
        return words[2].text
    return None


def _pairs(tokens: list[Token], database: str) -> Iterator[tuple[TableId, TableId]]:
    while tokens:
        old, tokens = _table(tokens, database)
        new, tokens = _table(tokens[1:], database)
        yield old, new
        tokens = tokens[1:]  # the comma


def _table(tokens: list[Token], database: str) -> tuple[TableId, list[Token]]:
    if len(tokens) > 2 and tokens[1].text == "." and not tokens[1].quoted:
        return TableId(tokens[0].text, tokens[2].text), tokens[3:]
    return TableId(database, tokens[0].text if tokens else ""), tokens[1:]


def _clauses(statement: str) -> Iterator[list[Token]]:
    """The comma-separated parts of an ALTER TABLE, after the table's name."""
    tokens = list(_tokens(statement))
    if len(tokens) < 3 or not tokens[0].says("ALTER") or not tokens[1].says("TABLE"):
        return
    yield from _parts(_table(tokens[2:], "")[1])


def _parts(tokens: list[Token]) -> Iterator[list[Token]]:
    """Split at the commas outside parentheses."""
    clause: list[Token] = []
    depth = 0
    for token in tokens:
        sign = "" if token.quoted else token.text
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            yield clause
            clause = []
        else:
            clause.append(token)
    yield clause


def _tokens(statement: str) -> Iterator[Token]:
    for found in _TOKEN.finditer(statement):
        text = found.group()
        if found.lastgroup == "name":
            yield Token(text[1:-1].replace("``", "`"), quoted=True)
        elif found.lastgroup == "text":
            yield Token(text, quoted=True)
        elif found.lastgroup != "skip":
            yield Token(text)
