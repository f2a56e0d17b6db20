"""The README's commands exist, its links lead somewhere, and error codes are unique sentences."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from ingest.cli.app import app
from ingest.config import settings_table
from ingest.model import reasons_table
from ingest.schema.type_table import table

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "ingest").rglob("*.py"))


def commands() -> set[str]:
    top = get_command(app)
    found = set()
    for name, command in top.commands.items():
        inner = getattr(command, "commands", None)
        found |= {f"{name} {sub}" for sub in inner} if inner else {name}
    return found


def test_every_command_is_in_the_readme_and_every_command_in_the_readme_exists():
    text = (ROOT / "README.md").read_text()
    mentioned = set()
    for row in re.findall(r"^\| (`ingest [^|]*) \|", text, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", row)
        words = first.removeprefix("ingest ").split()
        group = words[0]
        if others:
            mentioned |= {f"{group} {words[1]}", *(f"{group} {other}" for other in others)}
        else:
            mentioned.add(group)
    assert mentioned == commands()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_rooms_that_a_page_names_exist(page):
    named = re.findall(r"`([a-z_]+(?:/[a-z_.]+)*(?:\.py|/))`", page.read_text())
    gone = [one for one in named if not any((at / one).exists() for at in (ROOT, ROOT / "ingest"))]
    # A test's file may be named by itself, beside one of its folder.
    assert [one for one in gone if not list((ROOT / "tests").rglob(one))] == []


def test_the_types_page_holds_the_generated_table():
    assert table() in (ROOT / "docs" / "types.md").read_text()


def test_the_reasons_page_holds_the_generated_tables():
    assert reasons_table.table() in (ROOT / "docs" / "reasons.md").read_text()


def test_the_settings_page_holds_the_generated_tables():
    assert settings_table.table() in (ROOT / "docs" / "settings.md").read_text()


def test_the_stages_that_the_benchmark_times_exist():
    stages = runpy.run_path(str(ROOT / "bench" / "batches.py"))["STAGES"]
    assert [name for owner, name in stages if not hasattr(owner, name)] == []


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert (
        set(re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
        <= targets
    )


def test_a_bare_make_explains_the_targets():
    said = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True).stdout
    for target in ("demo", "test", "check", "bench", "soak", "clean"):
        assert f"make {target}" in said


def test_every_error_has_a_remedy_and_a_code_of_the_common_form():
    for path in SOURCES:
        text = path.read_text()
        for found in re.finditer(r"IngestError\(\s*\n?\s*\"([^\"]+)\"", text):
            assert re.fullmatch(r"E(-[A-Z]+)+", found.group(1)), (path, found.group(1))


def test_no_file_is_longer_than_a_reader_can_hold():
    long = {
        str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 400
    }
    assert not long


def test_help_is_instant_because_it_loads_no_spark():
    code = "import sys, ingest.cli.app; sys.exit('pyspark.sql' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_nothing_committed_names_a_machine_path():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.split():
        text = (ROOT / name).read_text(errors="replace")
        assert "/root" + "/" not in text, name
        assert "/work" + "/main" not in text, name
