"""Whatever ends a command, the terminal gets a sentence and scripts get an exit code."""

import pytest
import typer

from ingest.cli.screen import command
from ingest.model.errors import Exit


@command
def fails(failure: BaseException) -> None:
    raise failure


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


@pytest.mark.parametrize(
    "ended", [typer.Exit(3), typer.Abort(), typer.BadParameter("no such table")]
)
def test_what_a_command_ends_by_on_purpose_stays_what_it_is(ended):
    with pytest.raises(type(ended)) as found:
        fails(ended)
    assert found.value is ended
