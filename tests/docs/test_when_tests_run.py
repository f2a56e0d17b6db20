"""Tables that name tests say when these run: `make test` runs all that are not long, `make soak` the long ones and some programs."""

import ast
import re

import pytest

from tests.outside.packages import ROOT

PAGES = ("servers.md", "sources.md", "cluster.md")
TEST = re.compile(r"`(?:python -m )?(tests[/.][\w/.]+)`")
SOAK = re.search(r"^soak:.*?(?=^\S|\Z)", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)[
    0
]


def rows():
    for page in PAGES:
        for line in (ROOT / "docs" / page).read_text().splitlines():
            if line.startswith("|") and TEST.search(line):
                yield pytest.param(line, id=f"{page}: {line[2:40]}")


def is_long(node):
    return "pytest.mark.long" in ast.unparse(node)


def runs(file):
    """Where the tests of one file do: `make test`, `make soak`, both, or neither for what no target runs."""
    name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    if not file.name.startswith("test_"):
        return {"make soak"} if re.search(rf"-m {re.escape(name)}\b", SOAK) else set()
    found, tree = set(), ast.parse(file.read_text())
    all_long = any(isinstance(one, ast.Assign) and is_long(one) for one in tree.body)
    for one in tree.body:
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
            long = all_long or any(map(is_long, one.decorator_list))
            found.add("make soak" if long else "make test")
    return found


def named(text):
    """The files of a test, of a program, or of a folder of tests."""
    path = ROOT / (text if "/" in text else f"{text.replace('.', '/')}.py")
    return sorted(path.glob("test_*.py")) if path.is_dir() else [path]


@pytest.mark.parametrize("row", list(rows()))
def test_a_row_that_names_tests_says_truly_when_they_run(row):
    files = [file for found in TEST.findall(row) for file in named(found)]
    said = {target for target in ("make test", "make soak") if f"`{target}`" in row}
    assert files
    assert said == set().union(*map(runs, files))
