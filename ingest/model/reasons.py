"""Why something was not simply applied, and who merged a table: each reason once, with what it means and what to do. Why a
stream begins anew stands in ``restart_reasons``.

The sentences stand in lakes: in the manifest's gaps and tables, and in the quarantine. What is decided by a reason is asked of it
here (``is_in``, ``replays``), so a sentence that an earlier version wrote has to stay as it is; a test holds all of
them. ``python -m ingest.model.reasons_table`` prints the table of docs/reasons.md. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """``says``: the sentence, with ``{names}`` where the case fills something in. ``means``: for the data. ``remedy``:
    what a person does; empty where nothing has to be done. ``replays``: of a row in quarantine, whether taking it in
    again may help. ``code``: one word for machines, of what begins a stream anew. ``voids``: of a gap, that rows which
    were read from MySQL for an older request may be among what is missing, so that such a request does not close it.
    """

    says: str
    means: str
    remedy: str = ""
    replays: bool = True
    code: str = ""
    voids: bool = False

    def of(self, **named: object) -> str:
        """The sentence of one case. Raises ``KeyError`` where a name is missing."""
        return self.says.format(**named)

    @property
    def opening(self) -> str:
        """The sentence as far as it is the same in every case: without what a case fills in at its end."""
        return self.says.partition("{")[0].rstrip(": ")

    def is_in(self, text: str) -> bool:
        """Whether a text, from a lake perhaps, is this sentence of some case."""
        parts = [re.escape(part) for part in re.split(r"\{\w+\}", self.says)]
        return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None


# Gaps: the lake is known to lack something of a table, and it is taken again.

_UNTIL_THEN = "changes of the table may be missing until it was taken again"
_DOUBTFUL = "a change may be missing, or there twice over, until the table was taken again"
_SEE_WHO = "see who deletes topics of the pipeline"
BY_ITSELF = "nothing: the table is taken again by itself"
BY_A_PERSON = "it is not taken again by itself, as it keeps rows that the source no longer has (`append_only`)"
REPLACES = "`ingest resync` the table, which replaces all of its rows by those that the source has now; else the gap stays open"
"""What a person does about a gap of such a table, whatever its reason."""
PASSED_OVER = "until then its changes are passed over, as the connector does not know its columns"
"""Of such a gap that is told for that (``Gap.is_untold``)."""

TOPIC_DELETED = Reason("the topic was deleted", _UNTIL_THEN, _SEE_WHO, voids=True)
TOPIC_MADE_AGAIN = Reason("the topic was deleted and made again", _UNTIL_THEN, _SEE_WHO, voids=True)
END_LOST = Reason(
    "the topic ends before what was applied: its end was lost",
    _UNTIL_THEN,
    "give Kafka's topics more than one replica (`kafka.replication_factor`)",
    voids=True,
)
RETENTION = Reason(
    "Kafka removed records before they were applied (retention)",
    _UNTIL_THEN,
    "keep them for longer (`kafka.retention_hours`) than the job is ever down",
    voids=True,
)
WENT_BACK = Reason(
    "the table went back to an older version, and not all that came after it comes again from its topic",
    "rows that the source has no more may be there, and changes that waited in quarantine may be missing, until the table "
    "was taken again",
    "see who restores or copies folders of the lake",
    voids=True,
)
UNKNOWN_BATCH = Reason(
    "what the table holds is of no batch that the manifest knows",
    "rows may be older or newer than those of the other tables until it was taken again",
    "see who restores or copies folders of the lake",
    voids=True,
)
LEFT_OUT = Reason(
    "the columns {columns} were left out of the lake until now",
    "the columns are NULL in existing rows until the table was taken again",
    voids=True,
)
ONLY_MYSQL_KNOWS = Reason(
    "only MySQL knows {what}", "what a DDL made of existing rows is not in the lake until then"
)
ANOTHER_SERVER = Reason(
    "another server took over, and which of its first transactions had been read before is not certain",
    _DOUBTFUL,
)
COUNTED_TWICE = Reason(
    "a binlog file of more than 4 GiB counts its places twice ({where})",
    _DOUBTFUL,
    "make smaller transactions: only one that is so large makes such a file",
)
COMPRESSED = Reason(
    "several changes have one place in the log ({where}), since a session compresses its transactions "
    "(binlog_transaction_compression, which has to be OFF in every session)",
    _DOUBTFUL,
    "switch `binlog_transaction_compression` off in that session",
)
LOG_GONE = Reason(
    "several changes have one place in the log ({where}), and MySQL no longer has that log to say whether "
    "they were sent again",
    _DOUBTFUL,
    "keep binlogs for longer (`binlog_expire_logs_seconds`)",
)
CHANGED_WHILE_READ = Reason(
    "without a key, and changed in the moment in which it was read: which of these changes its rows hold already is not certain",
    _DOUBTFUL,
    "nothing where nobody writes to it for some seconds now and then; else stop who writes to it for a moment, or `ingest resync FILE --all`, which reads all tables as of one certain place",
    voids=True,
)
UNCERTAIN_READING = Reason(
    "rows of one reading stand before its definition and behind it, or two readings began within a second: which rows are whole is not certain",
    _DOUBTFUL,
    voids=True,
)
MICROSECONDS = Reason(
    "rows that differ in microseconds alone were one row to an earlier version of ingest",
    "rows may be missing in a table without a key until it was taken again",
    voids=True,
)
LABELS_AS_NULL = Reason(
    "a snapshot by an earlier version of ingest read labels of the binary character set as NULL",
    "labels may stand as NULL until the table was taken again",
    voids=True,
)
JOINED = Reason(
    "the table joined later: rows of before it did are not in the lake",
    "the table is incomplete, and may be empty or missing, until it was taken whole",
    "nothing: the table is taken by itself where MySQL has GTIDs; else `ingest resync FILE --all`",
)
UNKNOWN_COLUMNS = Reason(
    "it got its name from {table}, whose columns the connector does not know",
    _UNTIL_THEN,
    "nothing: the table is taken by itself where MySQL has GTIDs; else `ingest resync FILE --all`",
    voids=True,
)
GUESSED_COLUMNS = Reason(
    "the connector no longer knew its columns, and took them from what MySQL's driver says, without labels and character sets",
    _UNTIL_THEN,
    UNKNOWN_COLUMNS.remedy,
    voids=True,
)
AMONG_OTHERS = Reason(
    "the connector gave a table up in the middle of reading it, and rows that it had collected may stand among the rows of this one",
    "rows of another table may be there, or older ones, and rows of the source may be missing, until the table was taken again",
    BY_ITSELF,
    voids=True,
)
FIRST_ROWS = Reason(
    "rows of before the first run are still to come: they are read in chunks, beside the stream",
    "the table is incomplete, and may be empty or missing, until it was taken whole",
    BY_ITSELF,
)
EXCLUDED = Reason(
    "`source.tables` has ceased to take the table while it was read: not all of its rows have come",
    "the table stays as it was, and is taken again once it is taken in again",
    voids=True,
)
DROPPED = Reason(
    "dropped from quarantine on {on} by `ingest quarantine drop`, changes: {changes}",
    "the table may differ from the source until it was taken again",
    "`ingest resync` the table; it is not taken again by itself",
)
GAPS = (
    *(TOPIC_DELETED, TOPIC_MADE_AGAIN, END_LOST, RETENTION, WENT_BACK, UNKNOWN_BATCH, LEFT_OUT),
    *(ONLY_MYSQL_KNOWS, ANOTHER_SERVER, COUNTED_TWICE, COMPRESSED, LOG_GONE, CHANGED_WHILE_READ),
    *(UNCERTAIN_READING, MICROSECONDS, LABELS_AS_NULL, JOINED, UNKNOWN_COLUMNS, GUESSED_COLUMNS),
    *(AMONG_OTHERS, FIRST_ROWS, EXCLUDED, DROPPED),
)


def voids(text: str) -> bool:
    """Whether a gap of this reason makes void what was asked for before it was recorded."""
    return any(one.voids and one.is_in(text) for one in GAPS)


def without_place(text: str) -> str:
    """A gap's reason without the place in MySQL's log that it names; the text itself where it names none."""
    named = (one for one in GAPS if "{where}" in one.says and one.is_in(text))
    return next((one.says for one in named), text)


# Tables that are set aside: a column has no exact place in the lake. Each is an open gap, too.

_ASIDE = "nothing of it is applied from there on, and what it held before stays; the others go on"

NO_PLACE = Reason(
    "{column}, for which there is no exact place in the lake",
    _ASIDE,
    "exclude the table in `source.tables`, or drop the column: the table is taken again then",
)
RESERVED = Reason(
    "has a column named {column}, which ingest needs itself",
    _ASIDE,
    "rename the column, or exclude the table in `source.tables`",
)
NEEDS_MAPPING = Reason(
    "has a column named {column}, which Delta holds only with column mapping",
    _ASIDE,
    "`profile: standard` below `lake`; or rename the column, or exclude the table",
)
SET_ASIDE = (NO_PLACE, RESERVED, NEEDS_MAPPING)

# Tables that stand still: a part of a batch could not be applied.

STOPPED = Reason(
    "a part of a batch could not be applied to it: {words}",
    "it stays as it was before that part, which waits in Kafka with all that comes after it; the others go on",
    "mend what the words name, then run again: every start tries it again, in order; what Kafka has lost by then is taken again",
)
UNFIT = Reason(
    "it cannot be gone on with: {words}",
    "it stays as it was found, and its changes wait in Kafka; the others go on",
    "what the words say, then run again: every start looks again, and what waits comes in order",
)
LEFT_BY_CONNECTOR = Reason(
    "the connector's task fails at a change of it, and leaves it out: {words}",
    "it stays as it was before; the others go on, and what is missing is taken from MySQL",
    "set `binlog_row_image=FULL` for every session; make the row smaller, or Kafka's limits larger; then run again: that "
    "run takes the table whole",
)
STANDING = (STOPPED, UNFIT, LEFT_BY_CONNECTOR)

# Tables that only the lake has: the source does not capture them any more, and their rows stay. Said, never stored.

_STAY = "its rows stay as they were, whatever becomes of them at the source"
_KEEP = "say `ddl: {drop_table: ignore}` of it below `tables`, which keeps its rows"
_BE_RID = "move its folder away while no job runs: the next one forgets it"

NOT_TAKEN = Reason(
    "`source.tables` does not take it any more",
    _STAY,
    f"take it in again, and the next run takes it whole; or {_KEEP}; or {_BE_RID}",
)
NO_SUCH_TABLE = Reason(
    "MySQL has no table of that name, or hides it from this user",
    f"{_STAY}; most often it was renamed to a name that is not taken, of which the connector says nothing",
    f"take it in under its new name, and the next run takes it whole; for what is here under the old one, {_KEEP}, or exclude it in "
    f"`source.tables` and {_BE_RID}",
)
HELD_BEFORE = Reason(
    "MySQL has no table of that name, and a policy holds it before {statement}",
    "its rows stay until the statement is let pass",
    "let it pass by the line with `approved` that `ingest status` shows",
)
KEPT = Reason(
    "{setting} keeps its rows", "the audit counts them apart and takes them for no difference"
)
ONLY_IN_LAKE = (NOT_TAKEN, NO_SUCH_TABLE, HELD_BEFORE, KEPT)

# Rows in quarantine.

_NOT_APPLIED = "the change is not applied; later ones of its key wait behind it"
_NOT_OURS = "report it with the record, or `ingest resync` the table"

NOT_UTF8 = Reason("value is not UTF-8", _NOT_APPLIED, _NOT_OURS)
NOT_AN_ENVELOPE = Reason(
    "value is not a Debezium envelope in JSON",
    _NOT_APPLIED,
    "see who else writes to the topic, and which converters Connect has",
)
NO_POSITION = Reason("envelope has no source position", _NOT_APPLIED, _NOT_OURS)
UNKNOWN_OPERATION = Reason("envelope has an unknown operation", _NOT_APPLIED, _NOT_OURS)
OF_ANOTHER_TABLE = Reason(
    "the change is of another table than its topic: {table}",
    "the change is not applied; the topic's own table goes on",
    "see who else writes to the topic, then `ingest quarantine drop` what waits",
)
NO_AFTER = Reason("change has no after image", _NOT_APPLIED, _NOT_OURS)
NO_BEFORE = Reason("change has no before image", _NOT_APPLIED, _NOT_OURS)
NOT_ITS_TYPE = Reason("a value does not fit its column's type", _NOT_APPLIED, _NOT_OURS)
OTHER_COLUMNS = Reason(
    "the row's columns are not those of the schema in force",
    _NOT_APPLIED,
    "`ingest resync` the table",
)
UNREAD_LABEL = Reason(
    "column {column}: Debezium cannot read labels of the binary character set by a snapshot of its own; "
    "`ingest resync` takes the table again",
    _NOT_APPLIED,
    "`ingest resync` the table",
)
NOT_SENT = Reason(
    "Debezium does not send the values of column {column}, a FLOAT4; the table is taken again by itself",
    _NOT_APPLIED,
    "nothing where MySQL has GTIDs; else `ingest resync FILE --all`, and write FLOAT",
)
DOES_NOT_FIT = Reason("the value of column {column} does not fit {type}", _NOT_APPLIED, _NOT_OURS)
EPOCH_DATE = Reason(
    "column {column} holds 1970-01-01, which Debezium writes for the zero date, too; "
    "say which it is by `source.epoch_dates`",
    _NOT_APPLIED,
    "set `source.epoch_dates`, then `ingest replay`",
)
ZERO_DATE_KEY = Reason(
    "the key column {column} holds a zero date: rows cannot be told apart",
    _NOT_APPLIED,
    "give the row another key at the source, then `ingest resync` the table",
)
UPDATE_OF_A_LOG = Reason(
    "an update of a table that the pipeline file calls append_only",
    "the row stays as it was inserted",
    "take `append_only` away, then `ingest resync` the table",
)
ABSENT = Reason(
    "the row to remove is not in the lake",
    "a table without a key may hold rows that the source does not have, or lack some",
    "`ingest resync` the table",
    replays=False,
)
BEHIND = Reason(
    "waits behind an earlier change of its key",
    "the change is not applied until the earlier one is",
    "mend what the earlier one waits for",
)
QUARANTINED = (
    *(NOT_UTF8, NOT_AN_ENVELOPE, NO_POSITION, UNKNOWN_OPERATION, OF_ANOTHER_TABLE, NO_AFTER),
    *(NO_BEFORE, NOT_ITS_TYPE, OTHER_COLUMNS, UNREAD_LABEL, NOT_SENT, DOES_NOT_FIT, EPOCH_DATE),
    *(ZERO_DATE_KEY, UPDATE_OF_A_LOG, ABSENT, BEHIND),
)

# Who merged a table: why this engine and, where one stands before it, why not that one.

_SAME = "nothing: all engines leave the same rows"
_SLOWER = "nothing: all engines leave the same rows; Spark takes some seconds longer"

ASKED_FOR = Reason("the pipeline file says so", _SAME)
FITS = Reason("it fits into one machine's memory", _SAME)
MARKED = Reason(
    "rows are marked as deleted where {rows} would be written anew",
    "the table has deletion vectors, which not every reader knows",
    "`profile: compat` below `lake`, or `spark: {merge_engine: delta-rs}`, where one does not",
)
OUT_OF_REACH = Reason(
    "it is not in a local folder with a plain name, or delta-rs does not read its log", _SLOWER
)
UNKNOWN_FEATURE = Reason("delta-rs does not write {features}", _SLOWER)
FLOAT_KEY = Reason("a key column is a floating-point number", _SLOWER)
WITH_TASKS = Reason(
    "its changes are with the cluster's tasks, and more than the driver takes", _SAME
)
LARGE_BATCH = Reason("{size} MiB of changes in one batch", _SAME)
LARGE_WITHOUT_KEY = Reason("it has no key, and a batch brings many changes", _SAME)
LARGE_TABLE = Reason("the table has {size} GiB", _SAME)
TAKEN_AGAIN = Reason("it has no key and was taken again: all of it is written in one commit", _SAME)
NOT_THERE = Reason(
    "a change removes a row that is not there",
    "Spark has merged the batch; the change is in quarantine",
    "`ingest resync` the table",
)
COULD_NOT = Reason(
    "delta-rs could not: {words}",
    _SLOWER,
    "report it with these words, which may hold values of rows",
)
MERGED_BY = (
    *(ASKED_FOR, FITS, MARKED, OUT_OF_REACH, UNKNOWN_FEATURE, FLOAT_KEY, WITH_TASKS),
    *(LARGE_BATCH, LARGE_WITHOUT_KEY, LARGE_TABLE, TAKEN_AGAIN, NOT_THERE, COULD_NOT),
)

# Why Spark's columns read a table's changes and not Arrow. Other words than these are the decoder's: what of a record it
# does not read.

_READ_BY_SPARK = "nothing: both readers read the same; Spark takes some seconds longer"

ALL_LATE = Reason("all of it came late to Spark", _READ_BY_SPARK)
REMEMBERED = Reason("Spark remembers what it has seen, of several partitions", _READ_BY_SPARK)
PAUSED = Reason("a policy pauses a table", _READ_BY_SPARK)
TAKEN_UP_AGAIN = Reason("it is taken up again", _READ_BY_SPARK)
KEY_WAITS = Reason("a key waits in quarantine", _READ_BY_SPARK)
UNKNOWN_TABLE = Reason("no table that is known", _READ_BY_SPARK)
UNREADABLE_COLUMN = Reason("a column that cannot be read", _READ_BY_SPARK)
COLUMNS_CHANGE = Reason("its columns change in this batch", _READ_BY_SPARK)
NO_KEY = Reason("it has no key", _READ_BY_SPARK)
COLUMN_NAME = Reason("the name of its column {column}", _READ_BY_SPARK)
COLUMN_TYPE = Reason("the type of its column {column}", _READ_BY_SPARK)
MANY_ROWS = Reason("the batch is large", _READ_BY_SPARK)
NO_TASK = Reason(
    "Spark's tasks could not read it; the log says why",
    _READ_BY_SPARK,
    "see that ingest and its packages are in the Python of Spark's executors; else report it with the log",
)
NOT_FETCHED = Reason("librdkafka could not fetch: {words}", _READ_BY_SPARK)
READ_BY_SPARK = (
    *(ALL_LATE, REMEMBERED, PAUSED, TAKEN_UP_AGAIN, KEY_WAITS, UNKNOWN_TABLE, UNREADABLE_COLUMN),
    *(COLUMNS_CHANGE, NO_KEY, COLUMN_NAME, COLUMN_TYPE, MANY_ROWS, NO_TASK, NOT_FETCHED),
)
