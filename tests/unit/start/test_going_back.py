"""A table that holds less than the manifest says: its folder is an older copy, or its last commits are lost."""

import json
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from ingest.model.gap import Gap
from ingest.model.position import PART_REREAD, Position
from ingest.model.start_facts import Foreign, Held, LakeFacts
from ingest.start import ahead_of_manifest, going_back
from ingest.start.start_decision import Refuse, Start, decide
from tests.support.mutants import Mutant
from tests.support.restored_by_time import restore_by_time
from tests.support.small_lake import SmallLake
from tests.support.sound_start import GONE, IDLE, PLACE, TABLE, THERE, entry, facts

OLDER = replace(THERE, version=5, markers={}, back=Held(5, 5, 2))
"""As batch 2 left it, where the manifest says version 7 of batch 3."""


@pytest.mark.parametrize("checkpoint", [facts().checkpoint, GONE])
def test_a_table_older_than_the_manifest_goes_on_from_the_batch_that_it_holds(checkpoint):
    start = decide(facts(lake=[OLDER], checkpoint=checkpoint))
    assert isinstance(start, Start)
    assert start.entry is not None
    assert start.entry.ends == {PLACE: 5, IDLE: 4}
    assert start.entry.high_water[PLACE].offset == 5
    assert start.entry.tables["d.t"] == replace(TABLE, version=5)
    assert (start.resume, start.restore, start.resync) == (False, (), ())
    (said,) = start.because
    assert said.startswith("d.t is older than the manifest says (its folder is an older copy, or")
    assert said.endswith("applying again what came after batch 2")


def test_one_that_stands_between_two_batches_is_said_to_be_at_the_lower_one_before_it_is_brought_there():
    """Brought there first, it could have the very version that it has lost, and would pass for what it was."""
    start = decide(facts(lake=[replace(OLDER, version=6, back=Held(6, 6, 3))]))
    assert isinstance(start, Start)
    assert start.restore == (("/l/d/t", 5),)
    assert start.entry.tables["d.t"].version == 7
    assert start.entry.ends[PLACE] == 5


def test_one_of_which_that_version_is_gone_is_taken_again():
    between = replace(OLDER, version=6, back=Held(6, 6, 3))
    start = decide(facts(lake=[between], unrestorable=frozenset({("/l/d/t", 5)})))
    assert (start.restore, start.resync) == ((), ("d.t",))
    assert start.entry.tables["d.t"].version == 6


def test_a_table_that_holds_a_batch_of_which_the_manifest_knows_nothing_is_taken_again():
    start = decide(facts(lake=[replace(OLDER, back=Held(5, 5, 9))]))
    assert start.resync == ("d.t",)
    assert (start.entry.batch_id, start.entry.ends[PLACE]) == (10, 9)


def test_which_batch_it_holds_is_said_by_its_number_and_not_by_a_version_that_was_made_again():
    """It went back after batch 3, was gone on with, and is now once more what batch 3 made of it."""
    rows = [
        entry(6, (9, 4), version=9),
        entry(5, (8, 4), version=7),
        entry(4, (5, 4), version=5),
        entry(3, (7, 4), version=7),
        entry(2, (5, 4), version=5),
    ]
    start = decide(facts(newest=rows[0], history=rows, lake=[replace(OLDER, back=Held(7, 7, 3))]))
    assert start.entry.ends[PLACE] == 7
    assert "after batch 3" in start.because[0]


def test_a_batch_of_another_table_by_that_name_is_not_gone_back_to():
    of_another = entry(2, (5, 4), tables={"d.t": replace(TABLE, version=5, id="another")})
    start = decide(facts(history=[entry(), of_another], lake=[OLDER]))
    assert start.resync == ("d.t",)


def test_one_that_is_as_it_was_made_is_filled_from_its_topic_s_beginning():
    start = decide(facts(lake=[replace(OLDER, version=0, back=Held(0, 0, 0))]))
    assert start.entry.ends == {PLACE: 0, IDLE: 4}
    assert (start.entry.tables, start.resync) == ({}, ())


REPLAY = entry(3, kind="replay", tables={"d.t": replace(TABLE, changes=2)})
SETTLED = entry(tables={"d.t": replace(TABLE, snapshot=Position(0, 1, 6, part=PART_REREAD))})


@pytest.mark.parametrize(
    "newest", [SETTLED, replace(REPLAY)], ids=["taken again since", "replayed since"]
)
def test_what_came_since_and_not_by_its_topic_is_taken_from_the_source(newest):
    start = decide(facts(newest=newest, history=[newest, entry(2, (5, 4), 5)], lake=[OLDER]))
    assert isinstance(start, Start)
    assert start.entry.ends[PLACE] == 5
    (gap,) = start.entry.gaps
    assert (gap.table, gap.position) == ("d.t", TABLE.position)
    assert "not all that came after it comes again" in gap.reason
    assert start.resync == ("d.t",)


@pytest.mark.parametrize(
    "newest",
    [SETTLED, entry(gaps=(Gap("d.t", "p.d.t", 0, 1, 2, "retention", 2, Position(0, 1, 6)),))],
    ids=["by request", "for a gap"],
)
def test_a_table_that_is_gone_and_had_been_taken_again_is_taken_again_once_more(newest):
    """Its topic brings rows that only that reading had shown to be gone."""
    gone = replace(THERE, version=None, markers={})
    assert decide(facts(newest=newest, history=[newest], lake=[gone])).resync == ("d.t",)
    assert decide(facts(lake=[gone])).resync == ()


MUTANTS = [
    Mutant(
        "versions alone say what a table holds",
        LakeFacts,
        "has_all_of",
        lambda of: lambda lake, row: of(replace(lake, back=replace(lake.back, batch=None)), row),
        test_which_batch_it_holds_is_said_by_its_number_and_not_by_a_version_that_was_made_again,
    ),
    Mutant(
        "one table's batches are another's by its name",
        LakeFacts,
        "has_all_of",
        lambda of: lambda lake, row: of(replace(lake, id=""), row),
        test_a_batch_of_another_table_by_that_name_is_not_gone_back_to,
    ),
    Mutant(
        "numbers are used twice",
        ahead_of_manifest,
        "newest_batch",
        lambda _: lambda facts: 0,
        test_a_table_that_holds_a_batch_of_which_the_manifest_knows_nothing_is_taken_again,
    ),
    Mutant(
        "it is brought back before the manifest says so",
        going_back,
        "_set_back",
        lambda of: lambda *given: replace(of(*given), tables={"d.t": replace(TABLE, version=6)}),
        test_one_that_stands_between_two_batches_is_said_to_be_at_the_lower_one_before_it_is_brought_there,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_is_killed_by_the_test_that_names_it(mutant):
    with mutant.in_place(), pytest.raises(AssertionError):
        mutant.killed_by()


def test_somebody_else_s_rows_in_an_older_copy_are_refused_with_a_version_that_it_has():
    refusal = decide(facts(lake=[replace(OLDER, back=None, foreign=Foreign(5, "WRITE"))]))
    assert isinstance(refusal, Refuse)
    assert "VERSION AS OF 4" in refusal.remedy


def test_a_commit_that_is_no_whole_one_is_refused_in_one_sentence():
    torn = LakeFacts("d.t", "/l/d/t", 0, torn="version 7 of /l/d/t is empty")
    refusal = decide(facts(lake=[torn]))
    assert isinstance(refusal, Refuse)
    assert "version 7 of /l/d/t is empty" in refusal.reason
    assert "move /l/d/t away" in refusal.remedy


@pytest.fixture
def lake(tmp_path):
    made = SmallLake(tmp_path / "lake")
    for n in range(1, 5):
        made.batch({"a": n, "b": n} if n != 2 else {"b": n})
    return made


def goes_on(lake, end):
    """A start, and a batch up to there: whatever happened, each offset is there once."""
    start = lake.start()
    assert isinstance(start, Start)
    lake.batch({"a": end, "b": end})
    assert (lake.rows("a"), lake.rows("b")) == ([*range(end)], [*range(end)])
    assert lake.gaps() == set()
    assert lake.start().resume
    return start


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_table_that_somebody_restored_by_time_goes_on_from_there_wherever_that_was(lake, zone):
    restore_by_time(lake.folder("a"), 2, zone)
    assert "was restored to an older version; applying again what came after batch 3" in goes_on(lake, 6).because[0]  # fmt: skip
    restored = restore_by_time(lake.folder("a"), 1, zone)
    DeltaTable(lake.folder("a")).delete("id = 0")
    lake.restore("a", restored)
    assert "after batch 1" in goes_on(lake, 8).because[0]


def commits(lake, name):
    return sorted((lake.folder(name) / "_delta_log").glob("*.json"))


def test_a_folder_from_an_older_copy_of_a_table_is_noticed_and_gone_on_with(lake):
    copy = lake.copy("a")
    lake.batch({"a": 6})
    lake.batch({"a": 7, "b": 6})
    lake.bring_back("a", copy)
    assert "after batch 4" in goes_on(lake, 9).because[0]


@pytest.mark.parametrize("lost", [1, 2])
def test_commits_that_were_lost_with_the_power_are_noticed(lake, lost):
    for file in commits(lake, "a")[-lost:]:
        file.unlink()
    goes_on(lake, 6)


@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("fences", [0, 1, 2])
def test_of_a_batch_of_several_commits_the_last_ones_may_be_lost(tmp_path, lost, fences):
    """A fence, of the job that starts, may bring the table to the very version that it has lost."""
    lake = SmallLake(tmp_path / "lake")
    lake.steps = 2
    for n in range(2, 9, 2):
        lake.batch({"a": n, "b": n})
    for file in commits(lake, "a")[-lost:]:
        file.unlink()
    for _ in range(fences):
        lake.fence("a")
    goes_on(lake, 10)


def test_an_older_copy_is_told_by_what_its_commits_say_and_not_by_their_numbers(lake):
    """It goes back, is gone on with by fewer and larger batches, and is then what it was before it went back."""
    early, late = lake.copy("a"), None
    for n in (5, 6, 7, 8):
        lake.batch({"a": n, "b": n})
    late = lake.copy("a")
    lake.bring_back("a", early)
    assert "after batch 4" in goes_on(lake, 11).because[0]
    assert len(commits(lake, "a")) < len([*late.glob("_delta_log/*.json")])
    lake.bring_back("a", late)
    assert "after batch 8" in goes_on(lake, 13).because[0]


def test_after_it_went_back_twice_a_copy_still_says_which_batch_it_holds(lake):
    copies = [lake.copy("a")]
    for n in (5, 6, 7):
        lake.batch({"a": n, "b": n})
        copies.append(lake.copy("a"))
    for copy, end in ((copies[1], 9), (copies[0], 11), (copies[2], 13), (copies[1], 15)):
        lake.bring_back("a", copy)
        goes_on(lake, end)


def test_a_table_that_the_manifest_forgot_and_that_is_back_goes_on_from_what_it_holds(lake):
    """Filled from its topic's beginning on top of what it holds, a table without a key would have each row twice."""
    copy = lake.copy("a")
    lake.restore("a", 0)
    assert isinstance(lake.start(), Start)
    assert "d.a" not in lake.newest.tables
    lake.bring_back("a", copy)
    start = lake.start()
    assert isinstance(start, Start)
    assert start.resync == ("d.a",), "who knows what came to it meanwhile"
    lake.batch({"a": 6})
    assert lake.rows("a") == [*range(6)]


def test_the_trace_of_a_batch_that_was_published_without_it_is_nothing_to_go_back_to(lake):
    """A replay whose crash came before its row of the manifest is published as a batch without changes."""
    note = replace(lake.note({"a": 5}), replay=True, ranges={})
    lake.commit("a", note, 77)
    lake.publish(lake.newest.without_changes("replay", note.batch_id, 1))
    assert lake.start().resume
    assert lake.rows("a") == [0, 1, 2, 3, 77]


def test_a_table_with_an_empty_commit_stands_still_and_the_others_go_on(lake):
    commits(lake, "a")[-1].write_text("")
    start = lake.start()
    assert isinstance(start, Start)
    assert "is empty" in start.aside["d.a"]
    assert "away" in start.aside["d.a"]
    assert start.entry.tables["d.a"].stopped == start.aside["d.a"]
    assert not start.entry.tables["d.b"].stopped


def test_a_table_whose_older_copy_has_another_writer_s_commit_stands_still(lake):
    copy = lake.copy("a")
    for n in (6, 7):
        lake.batch({"a": n})
    lake.bring_back("a", copy)
    *_, newest = commits(lake, "a")
    told = [json.loads(line) for line in newest.read_text().splitlines()]
    others = [one for one in told if "txn" not in one]
    others[0]["commitInfo"].pop("userMetadata")
    version = len(commits(lake, "a"))
    (newest.parent / f"{version:020d}.json").write_text("\n".join(map(json.dumps, others)))
    start = lake.start()
    assert isinstance(start, Start)
    assert "another writer" in start.aside["d.a"]
    assert f"VERSION AS OF {version - 1}" in start.aside["d.a"]
