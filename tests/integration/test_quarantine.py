"""A record that nobody can read, on the real chain: shown, given up, and named until its table was taken again."""

import json

import pytest
from confluent_kafka import Producer

TOPIC = "waits.waits.t"


@pytest.mark.long
def test_what_is_given_up_is_named_until_its_table_was_taken_again(cli, mysql, stack):
    mysql.database("waits")
    mysql.sql(
        "CREATE TABLE waits.t (id INT PRIMARY KEY, v INT)", "INSERT INTO waits.t VALUES (1, 1)"
    )
    file = cli.init("waits", "waits.*")
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    producer = Producer({"bootstrap.servers": stack.kafka().bootstrap_servers})
    producer.produce(TOPIC, b"not json at all")
    assert producer.flush(10) == 0
    mysql.sql("INSERT INTO waits.t VALUES (2, 2)")
    done = cli.once(file)
    assert done.returncode == 0, done.stderr

    (group,) = json.loads(cli("quarantine", "list", str(file), "--json").stdout)
    assert (group["table"], group["changes"]) == (TOPIC, 1)
    assert "not json at all" in cli("quarantine", "show", str(file), TOPIC).stdout
    refused = cli("quarantine", "drop", str(file), TOPIC)
    assert refused.returncode == 2
    assert "E-QUARANTINE-CONFIRM" in refused.stderr
    done = cli("quarantine", "drop", str(file), TOPIC, "--yes")
    assert done.returncode == 0, done.stderr
    assert "nothing waits" in done.stdout

    def report(*words):
        return cli("status", str(file), "--json", *words)

    for _ in range(2):  # a run in between asks for nothing
        status = report("--fail-on-gap")
        assert status.returncode == 4
        said = json.loads(status.stdout)
        (gap,) = said["gaps"]
        assert (gap["table"], gap["open"]) == ("waits.t", True)
        assert "dropped from quarantine on" in gap["reason"]
        assert (said["waiting"], said["resyncing"]) == ([], [])
        assert cli.once(file).returncode == 0
    equal, verdict = cli.audit(file)
    assert equal, verdict
    (table,) = verdict["tables"]
    assert "dropped from quarantine on" in table["note"]

    assert cli("resync", str(file), "waits.t").returncode == 0
    cli.until_mended(file)
    assert report("--fail-on-gap").returncode == 0
    (kept,) = json.loads(cli("quarantine", "list", str(file), "--dropped", "--json").stdout)
    assert kept["changes"] == 1
    equal, verdict = cli.audit(file)
    assert (equal, verdict["tables"][0]["note"]) == (True, "")
