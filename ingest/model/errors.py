"""The three ways something can go wrong: quarantine the row, retry, or stop and say why.

This module holds the third. An :class:`IngestError` is a complete sentence for the person at the
terminal: what happened and where, what it means for the data, what to do. Rows that cannot be
applied never raise; they travel as rejects (see ``row_images``) into the quarantine. Pure.
"""

from __future__ import annotations

from enum import IntEnum

THE_EMBEDDED_ONE = "the embedded one by `ingest local up`, with its `--home` if it has one"
"""How to start MySQL, Kafka or Connect where they are ours."""


class Exit(IntEnum):
    """Exit codes of every command, a contract for scripts (docs/operations.md lists them)."""

    OK = 0
    DIFFERENT = 1
    REFUSED = 2
    NOT_COMPARABLE = 3
    FAILED = 4
    INTERRUPTED = 130


class IngestError(Exception):
    """Something a person has to know about, with a stable code and a remedy.

    ``what`` says what happened and where, ``means`` what that means for the data (may be empty
    when nothing was touched), ``remedy`` what to do next. Nothing secret goes into any of them.
    ``each``: several complaints at once, of which ``what`` is the headline; a terminal gets a line for each, and
    everybody else one sentence. ``may_pass``: a server is away, perhaps for a moment; a job that runs already tries again.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        remedy: str,
        means: str = "",
        exit_code: Exit = Exit.REFUSED,
        may_pass: bool = False,
        each: tuple[str, ...] = (),
    ) -> None:
        self.headline = what
        self.each = each
        self.what = f"{what}: {'; '.join(each)}." if each else what
        super().__init__(self.what)
        self.code = code
        self.means = means
        self.remedy = remedy
        self.exit_code = exit_code
        self.may_pass = may_pass

    def __str__(self) -> str:
        parts = [f"{self.code}: {self.what}", self.means, f"What to do: {self.remedy}"]
        return " ".join(part for part in parts if part)

    def as_json(self) -> dict[str, str]:
        """The same sentence for ``--json``: code, what, means, remedy."""
        return {"code": self.code, "what": self.what, "means": self.means, "remedy": self.remedy}


_TABLE = "table of ingest"


def of_table(failure: BaseException, table: str) -> None:
    """Note which table an exception is about; what handles it knows no tables."""
    vars(failure)[_TABLE] = table


def table_of(failure: BaseException) -> str:
    """The table that was noted; empty for none."""
    return str(vars(failure).get(_TABLE, ""))
