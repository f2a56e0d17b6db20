"""`python -m bench`: its table is complete, what it says of each is so, and no program in it has gone stale."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import before, result_file
from bench.__main__ import BENCHES, WITHOUT_JSON, table

ROOT = Path(__file__).parents[2]
NO_BENCH = {"__init__", "__main__", "streams"}
"""A contestant of `bench.drains` that is a program of its own."""


def test_every_module_that_measures_is_in_the_table_and_the_readers_of_it_find_them():
    runs = {p.stem for p in (ROOT / "bench").glob("*.py") if "\ndef main(" in p.read_text()}
    assert runs - NO_BENCH == BENCHES.keys()
    assert all(name in table() for name in BENCHES)


@pytest.mark.parametrize("name", BENCHES)
def test_the_table_says_truly_which_write_their_figures(name):
    text = (ROOT / "bench" / f"{name}.py").read_text()
    asked = "result_file.asks_for_json(" in text
    written = bool(re.search(rf'result_file\.write\(\s*given,\s*"{name}"', text))
    assert asked == written == (name not in WITHOUT_JSON)


@pytest.mark.parametrize("name", BENCHES)
def test_every_name_that_a_benchmark_and_the_programs_in_it_import_is_there(name):
    tree = ast.parse((ROOT / "bench" / f"{name}.py").read_text())
    texts = (one.value for one in ast.walk(tree) if isinstance(one, ast.Constant))
    programs = [one for one in texts if isinstance(one, str) and "\nimport sys" in f"\n{one}"]
    for program in (tree, *map(ast.parse, programs)):
        for one in ast.walk(program):
            if isinstance(one, ast.ImportFrom) and one.module.split(".")[0] in ("ingest", "bench"):
                module = importlib.import_module(one.module)
                for wanted in one.names:
                    if not hasattr(module, wanted.name):
                        importlib.import_module(f"{one.module}.{wanted.name}")


def test_the_four_figures_have_names_that_stay():
    took = {"before": [before.Took(2, 1)], "now": [before.Took(1, 1)]}
    told = [before.summary(before.NAMES[figure], took).split("  ")[0] for figure in before.FIGURES]
    assert told == ["P1 drain", "P2 merge", "P3 many tables", "P4 freshness"]


def test_figures_are_written_with_the_commit_and_the_machine(tmp_path):
    given = argparse.Namespace(rounds=3, json=tmp_path / "found.json")
    result_file.write(given, "reads", took=[1.5])
    found = json.loads(given.json.read_text())
    assert (found["bench"], found["rounds"], found["took"]) == ("reads", 3, [1.5])
    assert found["machine"]["cpus"] > 0
    assert "commit" in found
    result_file.write(argparse.Namespace(json=None), "reads", took=[1.5])
    assert list(tmp_path.iterdir()) == [given.json]


def test_an_unknown_benchmark_is_refused_with_the_table():
    command = [sys.executable, "-m", "bench", "speed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert table() in done.stderr
