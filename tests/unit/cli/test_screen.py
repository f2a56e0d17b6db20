"""Whatever ends a command, the terminal gets a sentence and scripts get an exit code."""

import errno
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import typer

from ingest.cli import screen
from ingest.cli.screen import command
from ingest.config import pipeline_file
from ingest.model.errors import Exit, IngestError


@command
def fails(failure: BaseException) -> None:
    raise failure


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), typer.Abort()], ids=["runs", "asks"])
def test_who_interrupts_a_command_gets_the_code_for_that_also_at_a_question(failure, capsys):
    with pytest.raises(typer.Exit) as ended:
        fails(failure)
    assert ended.value.exit_code == Exit.INTERRUPTED
    assert "interrupted" in "".join(capsys.readouterr())


def test_a_failure_that_nobody_expected_is_a_sentence_and_its_traceback_stands_in_a_file(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("INGEST_HOME", str(tmp_path))
    with pytest.raises(typer.Exit) as ended:
        fails(KeyError("binlog_row_value_options"))
    assert ended.value.exit_code == Exit.FAILED
    said = "".join(capsys.readouterr())
    log = tmp_path / "logs" / "failures.log"
    for words in (
        "E-UNEXPECTED",
        "`ingest fails`",
        "KeyError: 'binlog_row",
        str(log),
        "what to do:",
    ):
        assert words in said
    assert "Traceback" not in said
    assert "Traceback" in log.read_text(encoding="utf-8")


@command
def fails_there(failure: BaseException, home: Path | None = None) -> None:
    raise failure


def test_the_file_is_in_the_folder_that_the_command_was_given(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("INGEST_HOME", str(tmp_path / "default"))
    with pytest.raises(typer.Exit):
        fails_there(KeyError("x"), home=tmp_path / "chosen")
    log = tmp_path / "chosen" / "logs" / "failures.log"
    assert str(log) in capsys.readouterr().err
    assert "Traceback" in log.read_text(encoding="utf-8")
    assert not (tmp_path / "default").exists()


def test_the_file_that_is_named_is_the_one_that_could_be_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "home").write_text("in the way")
    monkeypatch.setenv("INGEST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(typer.Exit):
        fails(KeyError("x"))
    (log,) = tmp_path.glob("ingest-*-failures.log")
    assert f"with the file {log}," in capsys.readouterr().err
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_failures_do_not_fill_a_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("INGEST_HOME", str(tmp_path))
    monkeypatch.setattr(screen, "_LARGE", 2_000)
    for _ in range(30):
        with pytest.raises(typer.Exit):
            fails(KeyError("x"))
    logs = list((tmp_path / "logs").iterdir())
    assert sorted(one.name for one in logs) == ["failures.log", "failures.log.1"]
    assert all(one.stat().st_size < 4_000 for one in logs)


def test_a_full_disk_is_told_as_one_by_every_command(capsys):
    with pytest.raises(typer.Exit) as ended:
        fails(OSError(errno.ENOSPC, "No space left on device", "/logs/x"))
    assert ended.value.exit_code == Exit.FAILED
    assert "E-DISK-FULL  The disk of /logs/x is full: No space left" in capsys.readouterr().err


def test_what_libraries_log_of_failures_does_not_come_to_the_terminal():
    """py4j does so by the root logger, which then prints."""
    program = (
        "import contextlib, logging, sys; from ingest.cli.app import main\n"
        "sys.argv = ['ingest', '--version']\n"
        "with contextlib.suppress(SystemExit):\n    main()\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    logging.exception('Exception while sending')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stderr, done.stdout.split()[0]) == ("", "ingest")


@pytest.mark.parametrize("ended", [typer.Exit(3), typer.BadParameter("no such table")])
def test_what_a_command_ends_by_on_purpose_stays_what_it_is(ended):
    with pytest.raises(type(ended)) as found:
        fails(ended)
    assert found.value is ended


WRONG = """
name: Shop
source: {mysql: "postgres://u@h", password: {env: P}, tables: []}
kafka: {bootstrap_server: "h:9092"}
connect: {url: "h:8083"}
"""
RIGHT = """
name: shop
source: {mysql: "mysql://u@h", password: {env: P}, tables: ["shop.*"]}
kafka: {bootstrap_servers: "h:9092"}
connect: {url: "http://h:8083"}
lake: {path: /lake}
"""


def shown(failure, capsys):
    with pytest.raises(typer.Exit) as ended:
        fails(failure)
    assert ended.value.exit_code == Exit.REFUSED
    return capsys.readouterr().err.splitlines()


def test_each_mistake_of_a_pipeline_file_is_a_line_of_its_own_below_the_error(capsys):
    with pytest.raises(IngestError) as refused:
        pipeline_file.parse(WRONG, "shop.yaml")
    assert shown(refused.value, capsys) == [
        "error E-CONFIG-SETTING  shop.yaml has 7 mistakes:",
        "  - `name`: 1 to 48 lower-case letters, digits, `-` and `_`, beginning with a letter",
        "  - `source.mysql`: expected mysql://user@host:port",
        "  - `source.tables` is empty",
        "  - `kafka.bootstrap_servers` is required",
        "  - `kafka.bootstrap_server` is not a setting; perhaps `bootstrap_servers` is meant",
        "  - `connect.url`: expected http://host:port or https://host:port",
        "  - `lake` is required",
        "  Nothing was started.",
        "  what to do: correct the named settings; `ingest schema` prints all of them.",
    ]


def test_several_complaints_are_one_sentence_where_no_person_reads_lines():
    with pytest.raises(IngestError) as refused:
        pipeline_file.parse(WRONG, "shop.yaml")
    what = refused.value.as_json()["what"]
    assert what.startswith("shop.yaml has 7 mistakes: `name`: 1 to 48")
    assert what.endswith("; `lake` is required.")
    assert what in str(refused.value)


def test_a_single_mistake_stands_on_the_line_of_the_error(capsys):
    with pytest.raises(IngestError) as refused:
        pipeline_file.parse(RIGHT.replace("/lake", '""'), "shop.yaml")
    assert shown(refused.value, capsys)[:2] == [
        "error E-CONFIG-SETTING  shop.yaml: `lake.path` is empty.",
        "  Nothing was started.",
    ]


def test_a_pipeline_file_that_is_not_there_is_said_with_the_folder_that_was_looked_in(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IngestError) as missing:
        pipeline_file.load(Path("shop.yaml"))
    said = shown(missing.value, capsys)
    assert "The pipeline file shop.yaml cannot be read: No such file or directory." in said[0]
    assert f"looked for in the folder {tmp_path}." in said[1]
    with pytest.raises(IngestError) as nowhere:
        pipeline_file.load(Path("no/shop.yaml"))
    assert f"in the folder {tmp_path / 'no'}, which does not exist." in nowhere.value.remedy
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(IngestError) as unreadable:
        pipeline_file.load(Path("folder.yaml"))
    assert unreadable.value.remedy == "name a file that this user may read."
