"""DDL policies on the real stack: what is followed, left out, waits, and goes on again."""

import pytest

from ingest.observe.pipeline_status import gather
from tests.kills.lab import Lab
from tests.support.lake import read

NAME = "policies"
WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
STATEMENTS = (
    f"UPDATE {NAME}.pauses SET v = 'before' WHERE id = 1",
    f"ALTER TABLE {NAME}.pauses DROP v, ADD w INT NOT NULL DEFAULT 5",
    f"INSERT INTO {NAME}.pauses VALUES (4, 4)",
    f"ALTER TABLE {NAME}.adds DROP v, ADD w INT NOT NULL DEFAULT 3",
    f"UPDATE {NAME}.adds SET w = 7 WHERE id = 2",
    f"INSERT INTO {NAME}.adds VALUES (4, 4)",
    f"ALTER TABLE {NAME}.ignores ADD w CHAR(36) DEFAULT (CONCAT('e', 1 + 1))",
    f"INSERT INTO {NAME}.ignores (id, v) VALUES (4, 'four')",
    f"TRUNCATE {NAME}.ignores",
    f"INSERT INTO {NAME}.ignores (id, v) VALUES (5, 'five')",
    f"ALTER TABLE {NAME}.follows DROP v",
    f"INSERT INTO {NAME}.follows VALUES (4)",
)
"""DDL of each table, under its policy, and rows before and after it."""


@pytest.fixture
def lab(stack, tmp_path):
    """Four tables of three rows, each with its policy, and a job that has taken them."""
    lab = Lab(stack, tmp_path, name=NAME, tables=("follows", "pauses", "adds", "ignores"))
    policies = {"pauses": "pause", "adds": "add_only", "ignores": "ignore"}
    lab.settings["tables"] = {f"{NAME}.{table}": {"ddl": word} for table, word in policies.items()}
    lab.sql(f"DROP DATABASE IF EXISTS {NAME}", f"CREATE DATABASE {NAME}")
    for table in lab.tables:
        lab.sql(
            f"CREATE TABLE {NAME}.{table} (id INT PRIMARY KEY, v VARCHAR(9))",
            f"INSERT INTO {NAME}.{table} VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        )
    lab.begin()
    lab.until_equal(300)
    yield lab
    lab.close()


def rows(lab, table):
    found = read(lab.lake / NAME / table).drop_columns(["_ingest"]).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def until_applied(lab):
    """Everything but what waits is in the lake."""
    lab.until(lambda: lab._published() and "follows" not in lab.differences(), "following", 200)


def restart(lab, policies):
    lab.kill("driver")
    lab.settings["tables"] = {f"{NAME}.{table}": said for table, said in policies.items()}
    lab.write_pipeline()
    return lab.start()


@pytest.mark.long
def test_each_table_does_with_ddl_what_its_policy_says_and_the_others_go_on(lab):
    lab.sql(*STATEMENTS)
    until_applied(lab)
    waits = [{"id": 1, "v": "before"}, {"id": 2, "v": "two"}, {"id": 3, "v": "three"}]
    assert rows(lab, "pauses") == waits
    assert rows(lab, "adds") == [
        {"id": 1, "w": 3, "v": "one"},
        {"id": 2, "w": 7, "v": "two"},
        {"id": 3, "w": 3, "v": "three"},
        {"id": 4, "w": 4, "v": None},
    ]
    assert rows(lab, "ignores") == [{"id": id_, "v": v} for id_, v in WORDS.items()]
    (paused,) = gather(lab.pipeline()).as_json()["paused"]
    assert paused["table"] == f"{NAME}.pauses"
    assert "DROP v" in paused["statement"]
    pending = {one.name: one.pending for one in gather(lab.pipeline()).tables}
    assert pending[f"{NAME}.pauses"] > 0
    assert pending[f"{NAME}.follows"] == 0

    # A job that dies knows it still, and what waits becomes more.
    lab.kill("driver")
    lab.start()
    lab.sql(
        f"UPDATE {NAME}.pauses SET w = 6 WHERE id = 4",
        f"DELETE FROM {NAME}.pauses WHERE id = 2",
        f"INSERT INTO {NAME}.follows VALUES (5)",
    )
    until_applied(lab)
    assert rows(lab, "pauses") == waits

    # A person lets the DDL pass, and wants the column that was left out after all.
    approved = {"ddl": "pause", "approved": paused["position"]}
    restart(lab, {"pauses": approved, "adds": {"ddl": "add_only"}})
    lab.tables = ("follows", "pauses")
    lab.until(lambda: not lab.differences(), "going on", 300)
    lab.until(lambda: not any(gap.is_open for gap in lab.entry().gaps), "closing the gap", 200)
    taken_in = [row for row in rows(lab, "ignores") if row["id"] == 5]
    assert taken_in == [{"id": 5, "v": "five", "w": "e2"}]
    assert gather(lab.pipeline()).as_json()["paused"] == []

    # The next DDL of that table is not approved; and `fail` ends the run by name.
    lab.sql(
        f"ALTER TABLE {NAME}.pauses ADD x INT",
        f"INSERT INTO {NAME}.pauses VALUES (7, 7, 7)",
        f"INSERT INTO {NAME}.follows VALUES (6)",
    )
    until_applied(lab)
    assert lab.entry().tables[f"{NAME}.pauses"].paused is not None
    job = restart(lab, {"*": {"ddl": "fail"}})
    assert job.process.wait(200) != 0
    said = " ".join((lab.folder / "job.log").read_text().split())
    assert "E-DDL-FAIL" in said
    assert "ADD x INT" in said
