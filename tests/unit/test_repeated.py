"""The list of repeated cases names tests that are there: one that is renamed would be of each landing's suite again."""

from pathlib import Path

import pytest

from tests.repeated import REPEATED, is_repeated

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", REPEATED)
def test_each_name_is_of_a_test_in_its_file(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    for name in REPEATED[file]:
        assert f"def {name.partition('[')[0]}(" in text
        assert is_repeated(file, name)


def test_a_name_is_of_its_file_alone():
    file, (name, *_) = next(iter(REPEATED.items()))
    assert not is_repeated("tests/another.py", name)
    assert not is_repeated(file, f"x{name}")
