"""`mysqld`: which server an embedded stack runs, and what it is refused for."""

import pytest

from ingest.local import mysqld
from ingest.model.errors import IngestError


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Makes a program that calls itself so; the PATH has none."""
    monkeypatch.setattr(mysqld.shutil, "which", lambda *_, **__: None)

    def make(name, said):
        folder = tmp_path / name / "bin"
        folder.mkdir(parents=True)
        (folder / "mysqld").write_text(f"#!/bin/sh\necho '{said}'\n")
        (folder / "mysqld").chmod(0o755)
        return folder / "mysqld"

    return make


EIGHT = "mysqld  Ver 8.0.33 for Linux on x86_64 (Source distribution)"
NINE = "mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))"


def with_data(stack):
    (stack / "mysql" / "data").mkdir(parents=True, exist_ok=True)
    (stack / "mysql" / "data" / "mysql.ibd").touch()


def test_a_stack_keeps_the_server_that_it_was_started_with(server, tmp_path):
    nine, stack = server("nine", NINE), tmp_path / "stack"
    assert mysqld.chosen(stack, nine).binary == nine
    assert mysqld.chosen(stack) == mysqld.Mysqld(nine, nine.parent.parent, {})


def test_a_stack_that_took_the_one_on_the_path_stays_with_it(server, tmp_path, monkeypatch):
    eight, stack = server("eight", EIGHT), tmp_path / "stack"
    monkeypatch.setattr(mysqld.shutil, "which", lambda *_, **__: str(eight))
    found = mysqld.chosen(stack)
    mysqld.has_made_data(stack, found)
    with_data(stack)
    monkeypatch.setattr(mysqld.shutil, "which", lambda *_, **__: None)
    assert mysqld.chosen(stack).binary == eight
    eight.write_text(f"#!/bin/sh\necho '{NINE}'\n")  # a package has replaced it
    with pytest.raises(IngestError, match=r"are of MySQL 8\.0"):
        mysqld.chosen(stack)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("mysqld  Ver 5.7.44 for Linux", "is of version 5.7"),
        ("mysqld  Ver 10.0.1 for Linux", "is of version 10.0"),
        ("mariadbd  Ver 11.8.9-MariaDB for debian-linux-gnu", "is no MySQL server"),
        ("hello", "is no MySQL server"),
    ],
)
def test_what_is_no_mysql_of_8_or_9_is_refused_and_not_remembered(server, tmp_path, said, why):
    with pytest.raises(IngestError, match=why) as refused:
        mysqld.chosen(tmp_path / "stack", server("other", said))
    assert refused.value.code == "E-LOCAL-MYSQLD"
    assert not (tmp_path / "stack").exists()
    assert said in str(refused.value)


def test_data_of_one_version_are_not_given_to_another(server, tmp_path):
    eight, nine, stack = server("eight", EIGHT), server("nine", NINE), tmp_path / "stack"
    with_data(stack)
    with pytest.raises(IngestError, match=r"are of MySQL 8\.0"):  # by the pinned one, of before
        mysqld.chosen(stack, nine)
    assert mysqld.chosen(stack, eight).binary == eight
    eight.unlink()
    with pytest.raises(IngestError, match=r"are of MySQL 8\.0"):
        mysqld.chosen(stack, nine)
    with pytest.raises(IngestError, match="is no MySQL server that runs here"):
        mysqld.chosen(stack)


@pytest.mark.parametrize("left", ["", '{"binary": "/usr/sbi'])
def test_a_note_that_a_power_cut_has_cut_off_is_written_anew_by_whoever_names_the_server(
    server, tmp_path, left
):
    nine, stack = server("nine", NINE), tmp_path / "stack"
    mysqld.has_made_data(stack, mysqld.chosen(stack, nine))
    with_data(stack)
    (stack / "mysql" / "mysqld.json").write_text(left)
    assert mysqld.chosen(stack, nine).binary == nine
    assert mysqld.chosen(stack).binary == nine
    with pytest.raises(IngestError, match=r"are of MySQL 9\.7"):
        mysqld.chosen(stack, server("eight", EIGHT))


def test_a_server_that_is_gone_is_said(server, tmp_path):
    nine = server("nine", NINE)
    mysqld.chosen(tmp_path / "stack", nine)
    nine.unlink()
    with pytest.raises(IngestError, match="is no MySQL server that runs here"):
        mysqld.chosen(tmp_path / "stack")


def test_messages_are_found_where_packages_keep_them(tmp_path):
    assert mysqld.Mysqld(tmp_path, tmp_path, {}).messages is None
    (tmp_path / "share" / "mysql" / "english").mkdir(parents=True)
    (tmp_path / "share" / "mysql" / "english" / "errmsg.sys").touch()
    assert mysqld.Mysqld(tmp_path, tmp_path, {}).messages == tmp_path / "share" / "mysql"
