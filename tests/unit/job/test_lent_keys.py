"""`lent_keys`: for which denials a job waits, and behind which only a new start is let in."""

import pytest

from ingest.config.lake_settings import Lake
from ingest.job.lent_keys import WAITS, LentKeys
from ingest.lake.files import object_store
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError

DENIED = LakeDeniedError("s3a://b/l", "403 Forbidden")
NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in (*NAMES, "AWS_REGION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def files(tmp_path):
    for name in ("id", "key", "token"):
        (tmp_path / name).write_text(f"first {name}\n")
    return tmp_path


def lent(**storage):
    """With a clock of its own."""
    lake = Lake.model_validate({"path": "s3a://b/l", "storage": storage})
    object_store.lend(lake)
    now = [0.0]
    keys = LentKeys(lake, lambda: now[0])
    return keys, now


def of_files(files, *names):
    said = dict(
        zip(("access_key", "secret_key", "session_token"), ("id", "key", "token"), strict=True)
    )
    return {
        name: {"file": str(files / said[name])} for name in ("access_key", "secret_key", *names)
    }


def ends_after(keys, now, seconds=10_000):
    """The second of the first denial, one each 15 s, that no waiting ends; None where all are waited for."""
    began = now[0]
    while now[0] - began < seconds:
        if keys.are_old(DENIED):
            return now[0] - began
        now[0] += 15
    return None


@pytest.mark.parametrize("changed", ["id", "key", "token"])
def test_keys_of_files_are_waited_for_until_a_file_has_another_one(files, changed):
    keys, now = lent(**of_files(files, "session_token"))
    assert ends_after(keys, now) is None
    (files / changed).write_text("second")
    assert not keys.are_old(LakeAwayError("s3a://b/l", "503"))
    assert keys.are_old(DENIED)


def test_a_file_that_is_being_replaced_ends_nothing(files):
    keys, now = lent(**of_files(files))
    (files / "key").rename(files / "away")
    assert ends_after(keys, now) is None


def test_keys_of_the_environment_are_those_of_the_start(files, monkeypatch):
    """Also under the very names by which the store's clients are told."""
    for name in NAMES[:2]:
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("LAKE_KEY", "mine")
    for storage in (
        {"access_key": {"env": NAMES[0]}, "secret_key": {"env": NAMES[1]}},
        of_files(files) | {"secret_key": {"env": "LAKE_KEY"}},
        {},  # nobody is named, and the environment has some
    ):
        assert ends_after(*lent(**storage)) == WAITS


def test_a_denial_that_has_passed_is_no_part_of_a_later_one(monkeypatch):
    monkeypatch.setenv(NAMES[0], "mine")
    keys, now = lent()
    assert ends_after(keys, now, WAITS) is None
    now[0] += 3600
    assert ends_after(keys, now) == WAITS


def test_a_role_renews_its_keys_by_itself():
    assert ends_after(*lent()) is None


def test_what_is_said_of_no_keys_of_s3_is_waited_for():
    keys = LentKeys(Lake.model_validate({"path": "gs://b/l"}))
    assert not keys.are_old(DENIED)
