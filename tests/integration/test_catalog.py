"""A pipeline whose tables are registered in a Hive metastore, which may be away."""

import pytest
import yaml

from tests.support import hive


@pytest.mark.long
def test_tables_are_registered_as_they_come_and_a_metastore_that_is_away_stops_nobody(
    cli, mysql, tmp_path
):
    mysql.database("listed")
    mysql.sql(
        "CREATE TABLE listed.orders (id INT PRIMARY KEY)", "INSERT INTO listed.orders VALUES (1)"
    )
    file = cli.init("listed", "listed.*")
    server = hive.start(tmp_path / "hive")
    try:
        said = yaml.safe_load(file.read_text())
        said["lake"]["catalog"] = {"metastore": server.uri}
        said["defaults"] = {"targets": ["mirror", "change_log"]}
        file.write_text(yaml.safe_dump(said))
        first = cli.once(file)
        assert first.returncode == 0, first.stderr
        for name in ("listed.orders", "listed.orders__changes"):
            assert f"{name} is in the catalogue {server.uri} now, as {name}" in first.stderr
        mysql.sql(
            "CREATE TABLE listed.later (id INT PRIMARY KEY)", "INSERT INTO listed.later VALUES (1)"
        )
    finally:
        server.stop()
    away = cli.once(file)
    assert away.returncode == 0, away.stderr
    assert away.stderr.count("cannot be used") == 1
    assert "EQUAL" in cli("audit", str(file), "--wait", "60").stdout
