"""One table whose data file is gone, on the real chain: the others go on, and it catches up once the file is back."""

import json
from pathlib import Path

import pytest

from ingest.config import pipeline_file


@pytest.mark.long
def test_a_table_with_a_lost_file_stands_still_and_the_others_go_on(cli, mysql):
    mysql.database("still")
    mysql.sql(
        *[
            f"CREATE TABLE still.{table} (id INT PRIMARY KEY, v INT)"
            for table in ("sick", "well", "other")
        ],
        *[
            f"INSERT INTO still.{table} VALUES (1, 1), (2, 2)"
            for table in ("sick", "well", "other")
        ],
    )
    file = cli.init("still", "still.*")
    assert cli.once(file).returncode == 0
    (data,) = (Path(pipeline_file.load(file).lake.path) / "still" / "sick").glob("*.parquet")
    hidden = data.rename(file.with_name("hidden"))
    mysql.sql(
        "UPDATE still.sick SET v = 9 WHERE id = 1",
        "UPDATE still.well SET v = 9 WHERE id = 1",
    )
    done = cli.once(file)
    assert done.returncode == 4, done.stderr
    assert "E-TABLE-STOPPED" in done.stderr
    assert "still.sick" in done.stderr
    assert "stands still, the others go on" in done.stderr + done.stdout
    said = json.loads(cli("status", str(file), "--json").stdout)
    assert [one["table"] for one in said["stopped"]] == ["still.sick"]
    waiting = {one["name"]: one["records_not_applied"] for one in said["tables"]}
    assert waiting["still.sick"] > 0
    mysql.sql(
        "INSERT INTO still.sick VALUES (3, 3)",
        "INSERT INTO still.other VALUES (3, 3)",
    )
    assert cli.once(file).returncode == 4, "each start tries it again"
    hidden.rename(data)
    done = cli.once(file)
    assert done.returncode == 0, done.stderr
    equal, verdict = cli.audit(file)
    assert equal, verdict
