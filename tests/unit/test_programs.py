"""The long suites behind `make soak` and `make bench`: each can be begun."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
PROGRAMS = sorted(set(re.findall(r"-m ((?:tests|bench)[.a-z_]*)", MAKEFILE.read_text())))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_that_the_makefile_names_can_be_imported(name):
    importlib.import_module(name)


def test_they_are_all_found():
    assert {"tests.ddl.spellings", "tests.kills.matrix", "tests.applications"} <= set(PROGRAMS)
