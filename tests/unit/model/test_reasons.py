"""`reasons`: the sentences that stand in lakes, and who else writes them."""

from pathlib import Path

import pytest

from ingest.model import reasons
from ingest.model.reasons import (
    GAPS,
    MERGED_BY,
    QUARANTINED,
    READ_BY_SPARK,
    SET_ASIDE,
)
from ingest.model.restart_reasons import RESTARTS

ROOT = Path(__file__).parents[3]
EVERY = (*GAPS, *SET_ASIDE, *QUARANTINED, *RESTARTS, *MERGED_BY, *READ_BY_SPARK)

STORED = [
    "the topic was deleted",
    "the topic was deleted and made again",
    "the topic ends before what was applied: its end was lost",
    "Kafka removed records before they were applied (retention)",
    "the table went back to an older version, and not all that came after it comes again from its topic",
    "what the table holds is of no batch that the manifest knows",
    "the columns 'w', 'x' were left out of the lake until now",
    "only MySQL knows what existing rows hold in the new column 'v' and what 'a{b}' holds",
    "another server took over, and which of its first transactions had been read before is not certain",
    "a binlog file of more than 4 GiB counts its places twice (binlog file 7, byte 12)",
    (
        "several changes have one place in the log (binlog file 1, byte 20), since a session compresses its "
        "transactions (binlog_transaction_compression, which has to be OFF in every session)"
    ),
    (
        "several changes have one place in the log (binlog file 1, byte 20), and MySQL no longer has that log to say "
        "whether they were sent again"
    ),
    (
        "without a key, and changed in the moment in which it was read: which of these changes its rows hold already is not "
        "certain"
    ),
    (
        "rows of one reading stand before its definition and behind it, or two readings began within a second: which rows are "
        "whole is not certain"
    ),
    "rows that differ in microseconds alone were one row to an earlier version of ingest",
    "a snapshot by an earlier version of ingest read labels of the binary character set as NULL",
    "the table joined later: rows of before it did are not in the lake",
    "it got its name from shop._orders_new, whose columns the connector does not know",
    (
        "the connector no longer knew its columns, and took them from what MySQL's driver says, without labels and character "
        "sets"
    ),
    (
        "the connector gave a table up in the middle of reading it, and rows that it had collected may stand among the rows "
        "of this one"
    ),
    "rows of before the first run are still to come: they are read in chunks, beside the stream",
    "`source.tables` has ceased to take the table while it was read: not all of its rows have come",
    "dropped from quarantine on 2026-01-31 by `ingest quarantine drop`, changes: 3",
    "column 'e' has the type VECTOR, for which there is no exact place in the lake",
    "has a column named '_ingest', which ingest needs itself",
    "has a column named 'a b', which Delta holds only with column mapping",
    "value is not UTF-8",
    "value is not a Debezium envelope in JSON",
    "envelope has no source position",
    "envelope has an unknown operation",
    "the change is of another table than its topic: {table}",
    "change has no after image",
    "change has no before image",
    "a value does not fit its column's type",
    "the row's columns are not those of the schema in force",
    (
        "column 'n': Debezium cannot read labels of the binary character set by a snapshot of its own; `ingest resync` "
        "takes the table again"
    ),
    "Debezium does not send the values of column 'c', a FLOAT4; the table is taken again by itself",
    "the value of column 'two\nlines' does not fit decimal(20,0)",
    (
        "column 'd' holds 1970-01-01, which Debezium writes for the zero date, too; say which it is by "
        "`source.epoch_dates`"
    ),
    "the key column 'k' holds a zero date: rows cannot be told apart",
    "an update of a table that the pipeline file calls append_only",
    "the row to remove is not in the lake",
    "waits behind an earlier change of its key",
    "Somebody else changed /lake/d/t (WRITE, version 8)",
    "the checkpoint does not continue the manifest",
    "another job wrote to the checkpoint",
    "Kafka no longer has records that were to be applied",
    "this machine's clock was set back",
    "a table that stood still by one failure is tried once more",
    "the pipeline file says so",
    "it fits into one machine's memory",
    "rows are marked as deleted where 2,000,000 would be written anew",
    "it is not in a local folder with a plain name, or delta-rs does not read its log",
    "delta-rs does not write changeDataFeed, typeWidening",
    "a key column is a floating-point number",
    "its changes are with the cluster's tasks, and more than the driver takes",
    "5,000 MiB of changes in one batch",
    "it has no key, and a batch brings many changes",
    "the table has 6.0 GiB",
    "it has no key and was taken again: all of it is written in one commit",
    "a change removes a row that is not there",
    "delta-rs could not: Generic error: 'a{b}'\nand more",
    "all of it came late to Spark",
    "Spark remembers what it has seen, of several partitions",
    "a policy pauses a table",
    "it is taken up again",
    "a key waits in quarantine",
    "no table that is known",
    "a column that cannot be read",
    "its columns change in this batch",
    "it has no key",
    "the name of its column a b",
    "the type of its column g",
    "the batch is large",
    "Spark's tasks could not read it; the log says why",
    "librdkafka could not fetch: no record of ('p.d.t', 0) in 30 s",
]
"""As versions before this module wrote them into manifests and quarantines, in its order."""


@pytest.mark.parametrize(("reason", "text"), list(zip(EVERY, STORED, strict=True)))
def test_what_an_earlier_version_wrote_into_a_lake_is_recognised_as_the_one_reason_it_is(
    reason, text
):
    assert [one for one in EVERY if one.is_in(text)] == [reason]
    if "{" not in reason.says:
        assert reason.says == text
        assert not reason.is_in(f"{text}; and more")


def test_a_sentence_is_filled_in_and_recognised_whatever_a_name_holds():
    said = reasons.DOES_NOT_FIT.of(column=repr("a{b}\n(c)*"), type="binary")
    assert said == "the value of column 'a{b}\\n(c)*' does not fit binary"
    assert reasons.DOES_NOT_FIT.is_in(said)
    with pytest.raises(KeyError):
        reasons.DOES_NOT_FIT.of(column="c")


@pytest.mark.parametrize("reason", EVERY, ids=lambda reason: reason.says[:30])
def test_no_other_module_writes_a_reason_s_sentence(reason):
    part = max(reason.says.replace("}", "{").split("{")[::2], key=len)[:40]
    named = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "ingest").rglob("*.py")
        if f'"{part}' in (text := path.read_text(encoding="utf-8")) or f'{part}"' in text
    }
    assert named <= {"ingest/model/reasons.py", "ingest/model/restart_reasons.py"}


def test_only_a_row_that_is_not_there_to_remove_is_beyond_a_replay():
    assert [one for one in EVERY if not one.replays] == [reasons.ABSENT]


def test_a_sentence_s_opening_has_nothing_of_its_case():
    said = reasons.COULD_NOT.of(words="a value")
    assert reasons.COULD_NOT.opening == "delta-rs could not"
    assert said.startswith(reasons.COULD_NOT.opening)
    assert reasons.FITS.opening == reasons.FITS.says
