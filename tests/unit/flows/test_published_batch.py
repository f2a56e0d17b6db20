"""What upkeep makes of a published version is as good as published; a batch that is not waits."""

import json
from pathlib import Path

import pytest

from ingest.flows.published_batch import is_published
from ingest.model.names import Role, app_id, upkeep_app_id

ADD = {"add": {"path": "x", "dataChange": True}}
MOVED = [
    {"add": {"path": "y", "dataChange": False}},
    {"remove": {"path": "x", "dataChange": False}},
]
GONE = {"remove": {"path": "x", "dataChange": True}}
PROPERTY = {"metaData": {"id": "t"}}


def by(app):
    return {"txn": {"appId": app, "version": 3}}


BATCH = [by(app_id("p", "c", "d.t", Role.CHANGE_LOG)), ADD]
DAYS = [by(upkeep_app_id("p")), GONE]


@pytest.fixture
def table(tmp_path):
    """By its commits behind version 0, which the manifest names; returns its path."""

    def made(*commits):
        log = tmp_path / "_delta_log"
        log.mkdir()
        for number, actions in enumerate([[ADD], *commits]):
            lines = [json.dumps(one) for one in ({"commitInfo": {}}, *actions)]
            (log / f"{number:020}.json").write_text("\n".join(lines) + "\n")
        return str(tmp_path)

    return made


def test_files_put_together_old_days_that_go_and_properties_are_as_good_as_published(table):
    assert is_published(table(MOVED, [PROPERTY], DAYS), 0, 3)


@pytest.mark.parametrize("commits", [(BATCH,), (MOVED, BATCH), (BATCH, DAYS), ([ADD],)])
def test_whatever_else_waits_for_the_manifest(table, commits):
    assert not is_published(table(*commits), 0, len(commits))


def test_a_version_that_is_not_there_or_was_cut_off_waits(table):
    path = table(MOVED)
    assert not is_published(path, 0, 2)
    (log,) = Path(path).rglob("*1.json")
    log.write_text('{"commitInfo":')
    assert not is_published(path, 0, 1)


def test_what_the_manifest_names_or_does_not_know_is_not_looked_at():
    assert is_published("/nowhere", 3, 3)
    assert is_published("/nowhere", None, 7)
