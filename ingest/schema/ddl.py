"""What the text of a DDL says and the column lists of its schema record do not. Pure.

Debezium sends the full new column list with each ALTER; which of the columns is an old one under a
new name, or a new one under an old name, stands only in the statement (``tests/integration/test_ddl.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, islice

from ingest.model.topics import TableId

# Blanks are ASCII's, and every letter or sign beyond it may stand in a name without quotes (a vowel sign, a no-break space, €).
_TOKEN = re.compile(
    r"""(?xs)
    (?P<version> /\*!(?:[0-7]\d{4}|80\d{3}|0\d{5})?(?!\d) )
  | (?P<skip> [\x20\t\n\v\f\r]+ | /\*.*?\*/ | \*/ | \#[^\n]* | --(?=\s|$)[^\n]* )
  | (?P<name> `(?:[^`]|``)*` )
  | (?P<text> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
  | (?P<word> [\w$\x80-\uffff]+ )
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
    """A word, a name, a text or a sign. ``quoted`` names are never keywords; of a text, the quotes are off."""

    text: str
    quoted: bool = False
    is_text: bool = False

    def says(self, *words: str) -> bool:
        """True when it is one of these keywords."""
        return not self.quoted and self.text.upper() in words


@dataclass(frozen=True)
class Constant:
    """A default as the statement says it: a number's text, 1 and 0 for TRUE and FALSE, or a string's."""

    text: str
    is_text: bool


@dataclass(frozen=True)
class ColumnChanges:
    """All names in lower case. ``renamed``: old name to new. ``dropped``: such a name may be added
    again by the same statement, as another column. ``computed``: added with a value that MySQL
    computes for each row (an expression as default, AUTO_INCREMENT, a generated column),
    or that the text does not say with certainty (hex, an introducer, a backslash). ``defaults``: those that it does
    say; none, or NULL, has no entry. ``recomputed``: told anew as generated columns, by their new names.
    ``told``: all that MODIFY and CHANGE tell anew, by those. ``computes``: generated columns, each with each word of its expression.
    ``converts``: CONVERT TO CHARACTER SET.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    defaults: Mapping[str, Constant] = field(default_factory=dict)
    added: frozenset[str] = frozenset()
    recomputed: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()
    computes: frozenset[tuple[str, str]] = frozenset()
    converts: bool = False

    @property
    def grows(self) -> bool:
        """Whether MySQL chooses a longer type for a TEXT whose letters get more bytes: where no statement tells the type."""
        return self.converts and not self.told

    def computing(
        self, before: frozenset[tuple[str, str]], was: Sequence[str], now: Sequence[str]
    ) -> frozenset[tuple[str, str]]:
        """Generated columns with the words of their expressions behind the statement. ``was``, ``now``: all columns."""
        found = set(self.computes)
        for column in now:
            name, origin = column.lower(), self.origin(column, was)
            if origin is not None and name not in self.told:
                found |= {(name, word) for one, word in before if one == origin.lower()}
        return frozenset(found)

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
    defaults: dict[str, Constant] = {}
    added: set[str] = set()
    recomputed: set[str] = set()
    told: set[str] = set()
    computes: set[tuple[str, str]] = set()
    clauses = list(_clauses(statement))
    begins = [clause[0].text.upper() for clause in clauses if clause and not clause[0].quoted]
    for clause in clauses:
        for words in _added(clause):
            name = words[0].text.lower()
            added.add(name)
            computes |= _computes(words)
            if _is_computed(words) or (value := _default(words)) is None:
                computed.add(name)
            elif value is not _NULL:
                defaults[name] = value
        words = [token for token in clause if not token.says("COLUMN")]
        if len(words) >= 4 and words[0].says("RENAME") and words[2].says("TO"):
            if not words[1].says("INDEX", "KEY"):
                renamed[words[1].text.lower()] = words[3].text.lower()
        elif len(words) >= 3 and words[0].says("CHANGE"):
            renamed[words[1].text.lower()] = words[2].text.lower()
        elif len(words) >= 2 and words[0].says("DROP") and not words[1].says(*_NOT_A_COLUMN):
            dropped.add(words[1].text.lower())
        if words and words[0].says("CHANGE", "MODIFY"):
            definition = words[2:] if words[0].says("CHANGE") else words[1:]
            if definition:
                told.add(name := definition[0].text.lower())
                computes |= _computes(definition)
                recomputed |= {name} if _expression(definition) else set()
    moved = {old: new for old, new in renamed.items() if old != new}
    return ColumnChanges(
        *(moved, frozenset(dropped), frozenset(computed), defaults, frozenset(added)),
        recomputed=frozenset(recomputed),
        told=frozenset(told),
        computes=frozenset(computes),
        converts="CONVERT" in begins,
    )


def _added(clause: list[Token]) -> Iterator[list[Token]]:
    """The definitions of an ADD clause, each from the column's name on."""
    words = [token for token in clause if not token.says("COLUMN")]
    if len(words) < 2 or not words[0].says("ADD") or words[1].says(*_NOT_A_COLUMN):
        return
    if words[1].text == "(" and not words[1].quoted:
        inside = list(_parts(words[2:], closed=True))
        yield from (part for part in inside if part and not part[0].says(*_NOT_A_COLUMN))
    else:
        yield words[1:]


def _is_computed(definition: list[Token]) -> bool:
    return any(
        token.says("AUTO_INCREMENT", "GENERATED", "AS", "SERIAL") for token in definition[1:]
    )


def _expression(definition: list[Token]) -> list[Token]:
    """What stands in parentheses behind AS; empty for a column that is not generated. An AS inside parentheses is a CAST's:
    of a default, which leaves rows as they are, or of a CHECK.
    """
    depth, found, is_behind = 0, list[Token](), False
    for token in definition[1:]:
        sign = "" if token.quoted else token.text
        depth += (sign == "(") - (sign == ")")
        if is_behind and depth == 0:
            break
        if is_behind:
            found.append(token)
        is_behind = is_behind or (depth == 0 and token.says("AS"))
    return found


_AS = re.compile(r"(?i)\bAS\b")
_WORD = re.compile(r"[\w$]+")


def _computes(definition: list[Token]) -> set[tuple[str, str]]:
    """The column with each word of its expression."""
    words = (token for token in _expression(definition) if not token.is_text)
    name = definition[0].text.lower()
    return {(name, one.text.lower()) for one in words if one.quoted or _WORD.fullmatch(one.text)}


def computing(statement: str) -> frozenset[tuple[str, str]]:
    """From a CREATE TABLE: its generated columns, each with each word of its expression. What another table's definition
    gives it (LIKE) is not known.
    """
    if not _AS.search(statement):
        return frozenset()  # nearly all, and a snapshot brings thousands
    words = [
        token for token in _tokens(statement) if not token.says("TEMPORARY", "IF", "NOT", "EXISTS")
    ]
    if len(words) < 3 or not words[0].says("CREATE") or not words[1].says("TABLE"):
        return frozenset()
    _, body = _table(words[2:], "")
    if not body or body[0].quoted or body[0].text != "(":
        return frozenset()
    parts = (
        one for one in _parts(body[1:], closed=True) if one and not one[0].says(*_NOT_A_COLUMN)
    )
    return frozenset(pair for part in parts for pair in _computes(part))


_NULL = Constant("", is_text=False)
_NUMBER = re.compile(r"\d+(\.\d+)?|\.\d+")


def _default(definition: list[Token]) -> Constant | None:
    """What the DEFAULT says, :data:`_NULL` for none; None where only MySQL knows, or where there are two.

    A word beside a string is an introducer (``_latin1'x'``, ``N'x'``, ``X'41'``). A backslash is one thing under
    NO_BACKSLASH_ESCAPES and another without.
    """
    at = [index for index, token in enumerate(definition) if index and token.says("DEFAULT")]
    if not at:
        return _NULL
    rest = definition[at[0] + 1 :]
    if len(at) > 1 or not rest:
        return None
    sign = ""
    if len(rest) > 1 and rest[0].text in ("-", "+") and not rest[0].quoted:
        sign, rest = rest[0].text.replace("+", ""), rest[1:]
    first, then = rest[0], rest[1:]
    if first.says("NULL"):
        return _NULL
    if first.says("TRUE", "FALSE") and not sign:
        return Constant(str(int(first.says("TRUE"))), is_text=False)
    if first.is_text and not sign:
        plain = "\\" not in first.text and first.text.isascii()
        joined = bool(then) and (then[0].is_text or then[0].says("COLLATE"))
        return Constant(first.text, is_text=True) if plain and not joined else None
    number = first.text
    for token in then if not first.quoted else []:
        if token.quoted or not re.fullmatch(r"\.|\d+", token.text):
            break
        number += token.text
    if not first.quoted and _NUMBER.fullmatch(number):
        return Constant(sign + number, is_text=False)
    return None


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


@dataclass(frozen=True)
class Unlogged:
    """How an ALTER TABLE has made rows come or go of which the binlog has no event. ``other``: the table that it exchanged
    them with; without a database where that is the session's, which nobody tells.
    """

    what: str
    other: TableId | None = None


EMPTIED = ("DROP PARTITION", "TRUNCATE PARTITION")
"""Such by which rows only go."""


REPLACED = "CREATE TABLE of a name that another table had"
"""What ``SchemaVersion.unlogged`` says where the other one went without a word: what it held may be in the lake still."""

ONLY_GO = (*EMPTIED, REPLACED)
"""Such by which no row has come."""


def unlogged(statement: str, database: str) -> Unlogged | None:
    """Of a partition that goes, is emptied or exchanged, or of a tablespace that comes. None for every other statement, and
    for DISCARD TABLESPACE: until another one comes MySQL itself can neither read nor change the table.
    """
    for clause in _clauses(statement):
        if len(clause) < 2 or not clause[1].says("PARTITION", "TABLESPACE"):
            continue
        what = f"{clause[0].text} {clause[1].text}".upper()
        if clause[0].says("EXCHANGE"):
            table, _ = _table([*_tokens(statement)][2:], "")
            words = dropwhile(lambda token: not token.says("TABLE"), clause)
            other, _ = _table([*words][1:], "" if table.database else database)
            return Unlogged(what, other)
        # A column may be called TABLESPACE, and dropped.
        if what in EMPTIED or clause[0].says("IMPORT"):
            return Unlogged(what)
    return None


def is_conditional(statement: str) -> bool:
    """Whether it makes something only where it is not there: MySQL's log has it also where it did nothing."""
    return any(token.says("IF") for token in islice(_tokens(statement), 4))


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


def _parts(tokens: list[Token], *, closed: bool = False) -> Iterator[list[Token]]:
    """Split at the commas outside parentheses. ``closed``: up to the parenthesis that closes them."""
    clause: list[Token] = []
    depth = 0
    for token in tokens:
        sign = "" if token.quoted else token.text
        depth += (sign == "(") - (sign == ")")
        if closed and depth < 0:
            break
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
            mark = text[0]
            yield Token(text[1:-1].replace(mark * 2, mark), quoted=True, is_text=True)
        elif found.lastgroup not in ("skip", "version"):
            yield Token(text)
