"""Each recipe, run small, shows what its page says."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from ingest.cli.recipe import RECIPES
from ingest.recipes import guarantees, scheduled, sources_and_sinks, word_count
from ingest.recipes.stage import Stage

PAGES = Path(__file__).parents[3] / "docs" / "recipes"


@pytest.fixture
def stage(spark, tmp_path):
    return Stage(tmp_path, Console(file=io.StringIO(), width=120), spark)


def screen(stage):
    return stage.console.file.getvalue()


def test_every_recipe_has_a_page_and_every_page_a_recipe():
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == {*RECIPES}
    listed = (PAGES / "README.md").read_text(encoding="utf-8")
    for name in RECIPES:
        assert f"ingest recipe {name}" in (PAGES / f"{name}.md").read_text(encoding="utf-8")
        assert f"({name}.md)" in listed


LAST = {
    ("11:55", "cat"): 1, ("11:55", "dog"): 3,
    ("12:00", "cat"): 3, ("12:00", "dog"): 4, ("12:00", "owl"): 1,
    ("12:05", "cat"): 2, ("12:05", "dog"): 3, ("12:05", "owl"): 3,
    ("12:10", "cat"): 1, ("12:10", "dog"): 2, ("12:10", "owl"): 3,
    ("12:15", "cat"): 1, ("12:15", "owl"): 2,
    ("12:20", "owl"): 1,
}  # fmt: skip
DONKEY = {("11:55", "donkey"): 1, ("12:00", "donkey"): 1}


def test_the_classic_words_are_counted_as_in_spark_s_own_guide(stage):
    seen = word_count.show(stage)
    assert seen["complete"][-1] == {**LAST, **DONKEY}, "complete drops nothing"
    assert seen["update"][-1] == LAST
    assert seen["append"][-1] == {pair: n for pair, n in LAST.items() if pair[0] <= "12:00"}
    assert seen["append"][2] == {}, "no window is closed by then"
    assert seen["update"][0] == {
        ("11:55", "cat"): 1, ("11:55", "dog"): 3, ("12:00", "cat"): 1, ("12:00", "dog"): 3
    }  # fmt: skip
    said = screen(stage)
    assert "complete: nothing was dropped" in said
    assert said.count("donkey") >= 4


def test_one_kill_loses_one_batch_doubles_one_or_does_neither(stage):
    assert guarantees.show(stage) == {
        "at most once": 500,
        "at least once": 700,
        "exactly once": 600,
    }
    assert "100 lost" in screen(stage)
    assert "100 twice" in screen(stage)


def test_runs_from_cron_go_on_where_the_last_one_ended(stage):
    runs = [(rows, orders) for _, rows, orders in scheduled.show(stage)]
    assert runs == [(15, 15), (10, 25), (0, 25), (20, 45)]


def test_small_sources_and_sinks(stage):
    assert sources_and_sinks.show(stage) == {
        "files → memory": 3,
        "rate → console": 5,
        "socket → foreach": 4,
    }
