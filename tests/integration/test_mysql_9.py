"""MySQL 9 as the source, through the whole chain; and a MariaDB, which is refused. Both as Debian has them."""

import json
import secrets
import subprocess

import pytest

from ingest.local import artefacts, process
from ingest.local.stack import Stack
from tests.support.other_mysql import mysqld
from tests.support.server import Cli, Server


@pytest.fixture(scope="module")
def nine(tmp_path_factory):
    """A stack whose MySQL is of version 9, started as a user would."""
    binary = mysqld()
    if binary is None:
        pytest.skip("this machine's packages have no MySQL 9")
    home = tmp_path_factory.mktemp("nine")
    stack = Stack.at(home / "stack")
    cli = Cli(stack, home)
    try:
        done = cli("local", "up", "--home", str(stack.home), "--mysql", str(binary))
        assert done.returncode == 0, done.stderr
        stack = Stack.at(stack.home)
        yield Cli(stack, home), Server(stack)
    finally:
        cli("local", "down", "--home", str(stack.home))


def went(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.long
def test_a_mysql_9_is_mirrored_and_a_table_with_a_vector_is_set_aside_by_name(nine):
    cli, mysql = nine
    assert mysql.sql("SELECT VERSION()")[0][0].startswith("9.")
    mysql.database("shop")
    mysql.sql(
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(40), j JSON)",
        "CREATE TABLE shop.log (line VARCHAR(40))",
        "CREATE TABLE shop.old_vectors (id INT PRIMARY KEY, v VECTOR(2))",
        "INSERT INTO shop.orders VALUES (1, 'one', '{\"a\": 1.50}'), (2, 'two', NULL)",
        "INSERT INTO shop.log VALUES ('a'), ('a'), (NULL)",
        "INSERT INTO shop.old_vectors VALUES (1, STRING_TO_VECTOR('[1,2]'))",
    )
    file = cli.init("shop", "shop.*")
    went(cli.once(file))
    mysql.sql(
        "UPDATE shop.orders SET note = 'second' WHERE id = 2",
        "ALTER TABLE shop.orders ADD COLUMN more INT DEFAULT 7, RENAME COLUMN note TO words",
        "INSERT INTO shop.orders VALUES (3, 'three', '[]', 3)",
        "DELETE FROM shop.log WHERE line = 'a' LIMIT 1",
        "CREATE TABLE shop.new_vectors (id INT PRIMARY KEY, v VECTOR(2))",
        "INSERT INTO shop.new_vectors VALUES (1, STRING_TO_VECTOR('[1,2]'))",
        "INSERT INTO shop.orders VALUES (4, 'behind it', NULL, 4)",
    )
    went(cli.once(file))
    verdict = json.loads(cli("audit", str(file), "--wait", "60", "--json").stdout)
    found = {one["name"]: one for one in verdict["tables"]}
    assert found["shop.orders"]["differences"] == found["shop.log"]["differences"] == 0
    assert found["shop.orders"]["source_rows"] == 4
    assert verdict["outcome"] == "different"
    status = json.loads(cli("status", str(file), "--json").stdout)
    gaps = {gap["table"]: gap["reason"] for gap in status["gaps"] if gap["open"]}
    for name in ("shop.old_vectors", "shop.new_vectors"):
        assert "VECTOR" in found[name]["note"], found[name]
        assert "VECTOR" in gaps[name]


@pytest.mark.long
def test_data_of_mysql_9_are_not_given_to_the_pinned_one(nine):
    cli, _ = nine
    pinned = artefacts.mysql_home() / "bin" / "mysqld"
    done = cli("local", "up", "--home", str(cli.stack.home), "--mysql", str(pinned))
    assert done.returncode == 2, done.stderr
    assert "are of MySQL 9." in done.stderr


@pytest.mark.long
def test_a_mariadb_is_refused_by_its_name(cli, tmp_path):
    binary = mysqld("mariadb")
    if binary is None:
        pytest.skip("this machine's packages have no MariaDB")
    data, port = tmp_path / "data", process.free_port()
    share = binary.parents[1] / "share"
    base = [binary, "--no-defaults", f"--datadir={data}", f"--lc-messages-dir={share}/mysql"]
    data.mkdir()
    said = secrets.token_hex(8)
    # Without its own system tables it lets everybody in, on this machine alone, for this test.
    server = subprocess.Popen(
        [
            *(*base, "--skip-grant-tables", "--user=root", f"--port={port}"),
            *("--bind-address=127.0.0.1", f"--socket={tmp_path}/s", "--skip-networking=0"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=(tmp_path / "mariadb.log").open("w"),
    )
    try:
        (tmp_path / "password").write_text(said)
        for _ in range(100):
            done = cli(
                *("init", "--mysql", f"mysql://ingest@127.0.0.1:{port}", "--tables", "a.*"),
                *("--password-file", str(tmp_path / "password"), "-o", str(tmp_path / "m.yaml")),
            )
            if "E-MYSQL-AWAY" not in done.stderr:
                break
        assert done.returncode == 2, done.stderr
        assert "E-MYSQL-VERSION" in done.stderr
        assert "is MariaDB (1" in done.stderr
    finally:
        server.kill()
        server.wait()
