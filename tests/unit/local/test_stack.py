"""A stack's folder: who may start, end and delete what in it. Its servers are programs that sleep."""

import json
import os
import shutil
import signal
import threading
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.local import process
from ingest.local import stack as module
from ingest.local.stack import PARTS, Stack
from ingest.model.errors import IngestError
from ingest.recipes.stage import Stage

SLEEP = shutil.which("sleep")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where parts that start are programs that sleep, and answer unless they are called silent."""
    folder = tmp_path / "home"
    monkeypatch.setattr(module.artefacts, "ensure", lambda _: None)
    monkeypatch.setattr(module, "_SLOWEST_START", 0.5)
    for part in PARTS:

        def made(stack, part=part):
            return SimpleNamespace(
                start=lambda: process.start(part, [SLEEP, "600"], home=stack.home, env={}),
                healthy=lambda: (
                    "no answer" if (stack.home / f"{part} is silent").exists() else None
                ),
            )

        monkeypatch.setattr(Stack, part, made)
    yield folder
    for left in process.leftovers(folder):
        left.kill()


def up(home, **ports):
    stack = Stack.at(home)
    stack.up(ports)
    return stack


def pids(stack):
    return {part: child.pid for part, child in stack.children.items()}


def states(home):
    return [part.state for part in Stack.at(home).status()]


def test_up_starts_what_does_not_run_and_leaves_alone_what_does(home):
    first = up(home)
    os.kill(first.children["kafka"].pid, signal.SIGKILL)
    os.waitpid(first.children["kafka"].pid, 0)
    second = up(home)
    assert second.ports == first.ports
    assert {part for part in PARTS if pids(first)[part] != pids(second)[part]} == {"kafka"}
    second.down()
    assert states(home) == ["stopped"] * 3
    assert process.leftovers(home) == []


def test_up_by_what_a_folder_said_earlier_kills_nobody(home):
    earlier = Stack.at(home)
    running = up(home)
    said = []
    earlier.up({}, said.append)
    assert pids(earlier) == pids(running)
    assert said == []


def test_two_at_once_take_turns_and_the_one_that_waits_says_so(home):
    first, second, said, done = Stack.at(home), Stack.at(home), [], threading.Event()
    home.mkdir()

    def other():
        second.up({}, said.append)
        done.set()

    with first._turn(said.append):
        waiting = threading.Thread(target=other)
        waiting.start()
        assert not done.wait(0.3)
        assert len(said) == 1
        assert "waiting" in said[0]
        assert str(home) in said[0]
    waiting.join(30)
    assert done.is_set()


@pytest.mark.parametrize(
    ("name", "running"),
    [
        ("mysql", PARTS),
        ("kafka", ("kafka",)),
        ("kafka", ("connect",)),
        ("kafka-controller", ("kafka",)),
        ("connect", PARTS),
    ],
)
def test_another_port_of_a_part_that_runs_is_refused_and_not_kept(home, name, running):
    stack = up(home)
    stack.stop([part for part in PARTS if part not in running])
    ports = Stack.at(home).ports
    with pytest.raises(IngestError, match="already") as refused:
        up(home, **{name: process.free_port()})
    assert refused.value.code == "E-LOCAL-PORT"
    assert Stack.at(home).ports == ports
    up(home, **{name: ports[name]})


def test_another_port_of_a_part_that_does_not_run_is_taken_and_kept(home):
    stack, port = up(home), process.free_port()
    stack.stop(["mysql"])
    assert up(home, mysql=port).ports["mysql"] == Stack.at(home).ports["mysql"] == port


@pytest.mark.parametrize("port", [99_999, -1])
def test_a_port_that_is_refused_is_not_kept(home, port):
    with pytest.raises(IngestError, match=f"no port {port}"):
        up(home, mysql=port)
    up(home)


@pytest.mark.parametrize("port", ["0", "65536", "99999", "-1"])
def test_the_command_takes_ports_that_there_are(home, port):
    done = CliRunner().invoke(app, ["local", "up", "--home", str(home), "--mysql-port", port])
    assert done.exit_code == 2
    assert not home.exists()


def test_up_is_done_when_each_part_answers_also_one_that_ran_before(home):
    up(home)
    (home / "kafka is silent").touch()
    with pytest.raises(IngestError, match="kafka did not come up: no answer"):
        up(home)


@pytest.mark.parametrize("left", ["", '{"ports": {"mysql": 1', "\0\0"])
def test_a_state_file_that_a_power_cut_has_cut_off_ends_no_command(home, left):
    first = up(home)
    (home / "state.json").write_text(left)
    assert states(home) == ["stopped"] * 3
    said = []
    second = Stack.at(home)
    second.up({}, said.append)
    assert len([line for line in said if "leftover" in line]) == 3
    assert all(child.process() is None for child in first.children.values())
    assert states(home) == ["running"] * 3
    (home / "state.json").write_text(left)
    Stack.at(home).down()
    assert process.leftovers(home) == []
    (home / "state.json").write_text(left)
    assert Stack.at(home).reset()


def test_a_state_file_of_an_earlier_version_is_read_and_one_of_a_later_one(home):
    stack = up(home)
    state = json.loads((home / "state.json").read_text())
    for child in state["children"].values():
        del child["ticks"], child["boot"]
        child["a later thought"] = 1
    (home / "state.json").write_text(json.dumps(state))
    assert pids(up(home)) == pids(stack)


@pytest.mark.parametrize("state", [None, "[]", '{"serial": 4, "resources": []}'])
def test_a_folder_that_is_no_stack_is_left_as_it_is(home, state):
    (home / "connect").mkdir(parents=True)
    (home / "connect" / "mine").touch()
    if state:
        (home / "state.json").write_text(state)
    before = sorted(home.rglob("*"))
    with pytest.raises(IngestError, match="connect would have been deleted") as refused:
        Stack.at(home).reset()
    assert refused.value.code == "E-LOCAL-HOME"
    Stack.at(home).down()
    Stack.at(home).stop(PARTS)
    assert sorted(home.rglob("*")) == before
    if state:
        with pytest.raises(IngestError, match="of another program"):
            up(home)
        assert (home / "state.json").read_text() == state


def test_reset_where_there_is_nothing_deletes_nothing_and_is_no_failure(home):
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "spark-shop.log").touch()
    for _ in range(2):
        done = CliRunner().invoke(app, ["local", "reset", "--home", str(home)])
        assert (done.exit_code, "nothing was deleted" in done.stderr) == (0, True)
    assert [one.name for one in home.rglob("*")] == ["logs", "spark-shop.log"]


def test_reset_deletes_what_the_parts_have_and_leaves_the_rest(home):
    up(home)
    for name in (*PARTS, "mine"):
        (home / name).mkdir()
    assert Stack.at(home).reset()
    assert {one.name for one in home.iterdir()} == {"mine", "up.lock"}
    assert process.leftovers(home) == []


def test_a_recipe_ends_the_parts_that_it_has_started_and_no_others(home):
    mine = up(home)
    mine.stop(["connect"])
    stage = Stage(home, Console(file=StringIO()), home=home)
    assert stage.stack.children.keys() == set(PARTS)
    stage.end()
    assert states(home) == ["running", "running", "stopped"]
    assert pids(Stack.at(home)) == {part: pids(mine)[part] for part in ("mysql", "kafka")}


@pytest.mark.parametrize(
    ("lines", "last"), [(0, []), (1, ["c"]), (2, ["b", "c"]), (9, ["a", "b", "c"])]
)
def test_logs_prints_as_many_lines_as_it_is_asked_for(tmp_path, lines, last):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "mysql.log").write_text("a\nb\nc\n")
    asked = ["local", "logs", "mysql", "--home", str(tmp_path), "-n", str(lines)]
    assert CliRunner().invoke(app, asked).stdout.splitlines() == last
