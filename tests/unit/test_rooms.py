"""What modules say of themselves is so: a pure one knows no engine, no server and nothing impure."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    *("pyspark", "delta", "deltalake", "confluent_kafka", "pymysql", "httpx", "psutil"),
    *("subprocess", "socket", "requests"),
}

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted((ROOT / "ingest").rglob("*.py"))
    if path.name != "__init__.py"
}
PURE_ROOMS = ("ingest.model.", "ingest.schema.")
"""All of their modules are pure."""
EXCEPT = {"ingest.model.failpoints"}
"""It kills its own process, when a test has asked for it."""


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def says_pure(module: str) -> bool:
    return bool(re.search(r"\b[Pp]ure\.", ast.get_docstring(parsed(module)) or ""))


def imported(module: str) -> tuple[set[str], set[str]]:
    """Ours, and the packages of others."""
    ours, others = set[str](), set[str]()
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            others |= {one.name.split(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] != "ingest":
                others.add(node.module.split(".")[0])
            else:
                full = {f"{node.module}.{one.name}" for one in node.names}
                ours |= {one if one in MODULES else node.module for one in full}
    return ours & MODULES.keys(), others


def test_there_are_modules_to_look_at():
    assert len(MODULES) > 100
    assert sum(map(says_pure, MODULES)) > 30


@pytest.mark.parametrize("module", [one for one in MODULES if says_pure(one)])
def test_a_module_that_says_it_is_pure_imports_nothing_that_is_not(module):
    ours, others = imported(module)
    assert not others & OUTSIDE
    assert {one for one in ours if not says_pure(one)} - EXCEPT == set()


@pytest.mark.parametrize(
    "module", [one for one in MODULES if one.startswith(PURE_ROOMS) and one not in EXCEPT]
)
def test_every_module_of_a_pure_room_says_that_it_is_pure(module):
    assert says_pure(module)


@pytest.mark.parametrize(
    "room",
    sorted(str(one.parent.relative_to(ROOT)) for one in (ROOT / "ingest").rglob("__init__.py")),
)
def test_every_room_says_what_is_in_it(room):
    text = (ROOT / room / "__init__.py").read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text))


def test_every_name_in_the_map_of_the_rooms_is_there():
    text = (ROOT / "ingest" / "__init__.py").read_text(encoding="utf-8")
    named = set(re.findall(r"``([a-z_.]+)``", text)) - {"pyproject.toml"}
    modules = {part for module in MODULES for part in module.split(".")}
    functions = {
        node.name
        for module in MODULES
        for node in parsed(module).body
        if isinstance(node, ast.FunctionDef)
    }
    assert len(named) > 30
    assert {part for one in named for part in one.split(".")} - modules - functions == set()


def test_no_table_is_read_in_a_way_that_can_bring_a_process_down_as_it_ends():
    # Why: ingest.lake.delta.delta_sql, which does it otherwise.
    called = {
        f"{path.relative_to(ROOT)}: {node.attr}"
        for room in ("ingest", "bench")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in {"to_pyarrow_table", "to_pyarrow_dataset", "to_pandas"}
    }
    assert called == set()
