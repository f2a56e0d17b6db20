"""A merge engine is a file and a line of the registry: a third one, made here, is chosen and used."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.gone_files import FileGoneError
from ingest.lake.delta.workspace import ScratchGoneError
from ingest.lake.engines import registry
from ingest.lake.engines.delta_rs_engine import DeltaRsEngine
from ingest.lake.engines.dispatch import Merging
from ingest.lake.engines.engine import EngineJob, Merge, MergeSource
from ingest.lake.engines.engine_choice import MergeFacts, choose
from ingest.lake.files.lease import LeaseLostError
from ingest.model.names import Marker
from ingest.targets.mirror import Mirror
from tests.support.direct_lake import DirectLake

APP = "ingest/p/c/d.t/mirror"
FEW = 3


class Appending(DeltaRsEngine):
    """Adds a file of all rows, where there are few and none is to be removed; it looks no further."""

    name: ClassVar[str] = "appending"
    fits: ClassVar[str] = "it has few rows to add"
    fails: ClassVar[Exception | None] = None

    @staticmethod
    def can(facts: MergeFacts) -> str | None:
        return None if facts.bytes_of_changes <= FEW else f"more than {FEW} bytes"

    def merge(self, merge: Merge, facts: MergeFacts) -> None:
        assert facts.reachable, "each engine's look is in the facts"
        if self.fails is not None:
            raise self.fails
        self.handle(merge.table).append(merge.source.rows)


@pytest.fixture
def lake(tmp_path):
    return DirectLake(tmp_path, {"id": pa.int32(), "v": pa.string()})


@pytest.fixture
def merging(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "ENGINES", (Appending, DeltaRsEngine))
    return Merging(EngineJob(None, Committer(1), str(tmp_path), "auto", "standard"))


def merge(merging, lake, batch, rows, size):
    source = MergeSource(lambda: None, rows, size)
    identity = Identity(APP, batch, 0, "a note")
    merging.merge(Merge(lake.table, Mirror(), source, ["id", "v"], {"id": "int"}, identity))
    return str(merging.choices[lake.table.path])


def test_a_third_engine_is_chosen_where_it_can_and_commits_once_under_the_identity(merging, lake):
    rows = lake.rows({"id": [1, 2], "v": ["a", "b"]})
    for _ in range(2):
        assert merge(merging, lake, 1, rows, FEW) == "appending: it has few rows to add"
    assert lake.count("true") == 2
    assert lake.table.version() == 1
    assert lake.table.committed(APP) == Marker(1, 1, 0).version


def test_where_it_cannot_the_next_one_merges_and_says_why_it_was_not_the_first(merging, lake):
    merge(merging, lake, 1, lake.rows({"id": [1, 2], "v": ["a", "b"]}), FEW)
    newer = lake.rows({"id": [2], "v": ["B"]}, "u")
    assert merge(merging, lake, 2, newer, FEW + 1) == "delta-rs: more than 3 bytes"
    assert lake.values("v") == {"a", "B"}


def test_a_merge_that_changes_no_row_makes_no_commit_and_is_no_error(merging, lake):
    older = lake.rows({"id": [1], "v": ["older"]})
    merge(merging, lake, 1, lake.rows({"id": [1], "v": ["a"]}), FEW + 1)
    assert merge(merging, lake, 2, older, FEW + 1) == "delta-rs: more than 3 bytes"
    assert lake.values("v") == {"a"}
    assert lake.table.version() == 1


@pytest.mark.parametrize("failure", [ValueError("of a kind"), LookupError("a column")])
def test_where_it_turns_out_not_to_be_able_to_the_last_one_merges(
    merging, lake, monkeypatch, failure
):
    monkeypatch.setattr(Appending, "fails", failure)
    said = merge(merging, lake, 1, lake.rows({"id": [1], "v": ["a"]}), FEW)
    assert said == f"delta-rs: delta-rs could not: {failure}"
    assert lake.values("v") == {"a"}
    assert lake.table.committed(APP) == Marker(1, 1, 0).version


@pytest.mark.parametrize(
    "failure",
    [
        LeaseLostError("term 2"),
        OSError("no space left"),
        ScratchGoneError(Path("scratch"), "a file", Path("t")),
        DeltaError("Unable to copy data to file: No space left on device (os error 28)"),
    ],
)
def test_a_failure_of_the_run_is_nobody_else_s_to_try_again(merging, lake, monkeypatch, failure):
    monkeypatch.setattr(Appending, "fails", failure)
    with pytest.raises(type(failure)):
        merge(merging, lake, 1, lake.rows({"id": [1], "v": ["a"]}), FEW)
    assert lake.table.version() == 0


def test_a_file_that_is_gone_no_other_engine_has_either(lake, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "ENGINES", (DeltaRsEngine, Appending))
    merging = Merging(EngineJob(None, Committer(1), str(tmp_path), "auto", "standard"))
    merge(merging, lake, 1, lake.rows({"id": [1], "v": ["a"]}), FEW)
    for file in Path(lake.table.path).glob("*.parquet"):
        file.unlink()
    with pytest.raises(FileGoneError, match="is gone"):
        merge(merging, lake, 2, lake.rows({"id": [1], "v": ["b"]}, "u"), FEW)
    assert lake.table.version() == 1


def test_a_table_is_asked_by_the_first_engine_that_reaches_it(merging, lake):
    merge(merging, lake, 1, lake.rows({"id": [1], "v": ["a"]}), FEW)
    handle = merging.handle(lake.table)
    assert handle.version() == 1
    assert merging.opened == [handle]


def test_whoever_plans_chooses_among_the_same_engines():
    facts = MergeFacts("auto", "standard", reachable=True, bytes_of_changes=FEW + 1)
    assert choose((Appending, *registry.ENGINES), facts).engine == "delta-rs"
    assert choose((Appending,), MergeFacts("auto", "standard")).engine == "appending"
    with pytest.raises(LookupError, match="more than 3 bytes"):
        choose((Appending,), facts)


def test_the_last_engine_of_the_registry_can_merge_whatever_it_is_given():
    worst = MergeFacts("delta-rs", "compat", features=frozenset({"unknown"}), key=("double",))
    assert registry.ENGINES[-1].can(worst) is None
