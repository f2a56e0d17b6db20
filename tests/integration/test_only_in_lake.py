"""Tables that leave the source or the patterns, on the real chain: named by audit and status, and each remedy helps."""

import json
import shutil

import pytest

KEPT = "\ntables:\n  only.kept: {ddl: {drop_table: ignore}}\n  only.log: {append_only: true}\n"
EXCLUDED = '"!only.excluded", "!only.kept"'


@pytest.mark.long
def test_what_only_the_lake_has_is_named_until_it_is_kept_or_moved_away(cli, mysql):
    mysql.database("only")
    mysql.database("elsewhere")
    tables = ("stays", "renamed", "dropped", "excluded", "kept")
    mysql.sql(
        *[f"CREATE TABLE only.{table} (id INT PRIMARY KEY, v INT)" for table in tables],
        "CREATE TABLE only.log (v INT)",
        *[f"INSERT INTO only.{table} VALUES (1, 1), (2, 2)" for table in tables],
        "INSERT INTO only.log VALUES (1), (2), (3)",
    )
    file = cli.init("only", "only.*")
    file.write_text(file.read_text() + KEPT)
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert equal, verdict

    mysql.sql(
        "RENAME TABLE only.renamed TO elsewhere.renamed",
        "DROP TABLE only.dropped",
        "DROP TABLE only.log",
        "INSERT INTO only.stays VALUES (3, 3)",
    )
    taken = file.read_text()
    file.write_text(taken.replace('["only.*"]', f'["only.*", {EXCLUDED}]'))
    assert file.read_text() != taken
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert not equal
    assert verdict["outcome"] == "different"
    found = {table["name"]: table for table in verdict["tables"]}
    assert set(found) == {"only.stays", "only.renamed", "only.excluded", "only.kept", "only.log"}
    counts = {name: (one["differences"], one["kept"]) for name, one in found.items()}
    assert counts == {
        "only.stays": (0, 0),
        "only.renamed": (2, 0),
        "only.excluded": (2, 0),
        "only.kept": (0, 2),
        "only.log": (0, 3),
    }
    assert "MySQL has no table of that name" in found["only.renamed"]["note"]
    assert "`source.tables` does not take it any more" in found["only.excluded"]["note"]
    assert "move its folder away" in found["only.excluded"]["remedy"]

    def left(pipeline_file):
        status = cli("status", str(pipeline_file), "--json")
        assert status.returncode == 0, status.stderr
        said = json.loads(status.stdout)["only_in_lake"]
        return {one["name"]: one["rows"] for one in said}

    assert left(file) == {"only.renamed": 2, "only.excluded": 2, "only.kept": 2, "only.log": 3}
    planned = json.loads(cli("plan", str(file), "--json").stdout)["lake"]
    assert {one["table"] for one in planned} >= {"only.renamed", "only.excluded"}
    away = cli.folder / "away.yaml"
    away.write_text(file.read_text().replace(f"127.0.0.1:{cli.stack.mysql().port}", "127.0.0.1:1"))
    # MySQL does not say what it has: by the patterns, and by what the connector has told of DROPs.
    assert left(away) == {"only.excluded": 2, "only.kept": 2, "only.log": 3}

    more = '"!only.renamed"'
    file.write_text(file.read_text().replace(EXCLUDED, f"{EXCLUDED}, {more}"))
    lake = cli.folder / "lake" / "only" / "only"
    for table in ("renamed", "excluded"):
        shutil.move(lake / table, cli.folder / table)
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    for table in ("renamed", "excluded"):
        assert f"only.{table} is gone from the lake" in done.stderr
        assert not (lake / table).exists()
    equal, verdict = cli.audit(file)
    assert equal, verdict
    assert left(file) == {"only.kept": 2, "only.log": 3}
    assert cli("status", str(file), "--fail-on-gap").returncode == 0
