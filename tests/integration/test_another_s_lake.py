"""A pipeline file of another name, in which somebody has left the path of a lake that is kept already, between two runs of that."""

import json
import re
import shutil

import httpx
import pytest

from ingest.lake.manifest.manifest_reader import Ledger
from tests.support.untouched import everything


def of_another_server(lake):
    """As if it had been filled from another MySQL than the one that answers here."""
    file = lake / "_ingest" / "epochs" / "0.json"
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "server": "f" * 8 + said["server"][8:]}))
    return lambda: file.write_text(json.dumps(said))


def today(lake):
    pass


def of_an_earlier_version(lake):
    """It does not say whose it is; its checkpoint does."""
    shutil.rmtree(lake / "_ingest" / "owner", ignore_errors=True)


def behind_a_reboot(lake):
    """Nor does its checkpoint, of which nothing is rested upon then."""
    of_an_earlier_version(lake)
    shutil.rmtree(lake / "_ingest" / "checkpoint")


@pytest.mark.parametrize("found", [today, of_an_earlier_version, behind_a_reboot])
def test_its_runs_are_refused_untouched_and_the_other_pipeline_goes_on(cli, mysql, stack, found):
    name = found.__name__  # topics of one lake are none of the next one's
    mysql.database(name)
    mysql.sql(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1), (2)"
    )
    ours, other = cli.init(name, f"{name}.*"), cli.init("other", f"{name}.*")
    lake = cli.folder / "lake" / name
    other.write_text(re.sub(r"(?m)^( *path: ).*$", rf"\g<1>{lake}", other.read_text(), count=1))
    done = cli.once(ours)
    assert done.returncode == 0, done.stderr
    newest = Ledger(str(lake)).last()
    found(lake)
    as_it_was = of_another_server(lake)
    before = everything(lake)
    for words in (["run", str(other), "--once"], ["resync", str(other), "--all"]):
        done = cli(*words)
        assert done.returncode == 2, done.stderr
        assert "E-START-REFUSED" in done.stderr
        assert f"belongs to the pipeline '{name}'" in done.stderr
        assert everything(lake) == before
    assert httpx.get(f"{stack.connect().url}/connectors", timeout=30).json() == [name]
    as_it_was()
    mysql.sql(f"DELETE FROM {name}.t WHERE id = 1", f"INSERT INTO {name}.t VALUES (3)")
    done = cli.once(ours)
    assert done.returncode == 0, done.stderr
    said = (lake / "_ingest" / "owner" / "pipeline.json").read_text()
    assert json.loads(said)["pipeline"] == name
    now = Ledger(str(lake)).last()
    assert (now.gaps, now.position.epoch) == ((), newest.position.epoch)
    equal, verdict = cli.audit(ours)
    assert equal, verdict
