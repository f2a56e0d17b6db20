"""The demo's folder: what a demo has left goes, and nobody else's does."""

import pytest

from ingest.demo.folder import empty
from ingest.local.stack import Stack
from ingest.model.errors import IngestError


@pytest.fixture
def home(tmp_path):
    (tmp_path / "demo").mkdir()
    return tmp_path / "demo"


def emptied(home):
    empty(Stack.at(home), home / "lake", home / "pipeline.yaml")
    return sorted(str(one.relative_to(home)) for one in home.rglob("*"))


def of_a_demo(home):
    (home / "lake" / "_ingest").mkdir(parents=True)
    (home / "pipeline.yaml").write_text(f"lake:\n  path: {home / 'lake'}\n")


def test_what_a_demo_has_left_goes_also_behind_a_reset(home):
    of_a_demo(home)
    (home / "mine").touch()
    assert emptied(home) == ["mine"]
    of_a_demo(home)
    (home / "state.json").write_text('{"ports": {}, "children": {}}')
    assert emptied(home) == ["mine", "up.lock"]


@pytest.mark.parametrize("name", ["lake/swans", "pipeline.yaml", "mysql/schema.sql"])
def test_what_no_demo_has_made_is_left_and_so_is_all_else(home, name):
    of_a_demo(home) if name.startswith("mysql") else None
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).write_text("name: mine")
    before = sorted(home.rglob("*"))
    with pytest.raises(IngestError, match="would have been deleted"):
        emptied(home)
    assert sorted(home.rglob("*")) == before


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    assert emptied(tmp_path / "none") == []
