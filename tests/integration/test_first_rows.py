"""Rows of before the first run that come in chunks (`source.first_rows`), on the real chain."""

import threading
import zlib
from contextlib import closing

import pytest

from ingest.kafka import broker
from ingest.model import reasons
from ingest.source.connector import Connector
from ingest.source.later_tables import incomplete_in
from tests.support.own_lab import own_lab

MANY = 131_072
CHUNK = 8192


@pytest.fixture
def lab(stack, tmp_path, request):
    settings = {"source": {"first_rows": request.param}}
    name = f"first{zlib.crc32(request.node.name.encode())}"
    with own_lab(stack, tmp_path / "first", name, settings=settings) as found:
        yield found


def fill(lab, table):
    lab.sql(
        f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(40))",
        f"INSERT INTO {table} (v) VALUES ('one')",
        *[f"INSERT INTO {table} (v) SELECT CONCAT(v, '+') FROM {table}" for _ in range(17)],
    )


def incomplete(lab):
    return {str(table) for table in incomplete_in(lab.entry())}


def told(lab, table):
    """How many messages Kafka has of it."""
    place = (f"{lab.name}.{lab.name}.{table}", 0)
    return broker.end_offsets(lab.pipeline(), [place[0]]).get(place, 0)


@pytest.mark.long
@pytest.mark.parametrize("lab", ["in_chunks"], indirect=True)
def test_they_come_beside_the_stream_and_go_on_where_the_worker_and_the_job_were_killed(lab, cli):
    lab.prepare()
    fill(lab, f"{lab.name}.many")
    lab.start()
    lab.until(lambda: f"{lab.name}.many" in incomplete(lab), "a gap that says what is missing", 300)
    assert Connector(lab.pipeline()).current()["snapshot.mode"] == "initial"
    gaps = [gap.reason for gap in lab.entry().gaps if gap.is_open]
    assert gaps
    assert all(reasons.FIRST_ROWS.is_in(reason) for reason in gaps)
    lab.change(ddl=True)
    lab.until(lambda: told(lab, "many") > 3 * CHUNK, "some chunks")
    lab.kill("connect")
    lab.restart("connect")
    lab.change()
    lab.until(lambda: told(lab, "many") > 8 * CHUNK, "more of them")
    lab.kill("driver")
    lab.sql(
        f"DELETE FROM {lab.name}.many WHERE id % 1000 = 1",
        f"UPDATE {lab.name}.many SET v = 'new' WHERE id % 1000 = 2",
    )
    lab.start()
    lab.until(lambda: lab.entry() is not None and not incomplete(lab), "all rows", 300)
    lab.change(ddl=True)
    lab.until_equal(180)
    same, verdict = cli.audit(lab.file)
    assert same, verdict
    assert told(lab, "many") < MANY + 6 * CHUNK  # not read from its beginning again


@pytest.mark.long
@pytest.mark.parametrize("lab", ["at_once", "in_chunks"], indirect=True)
def test_a_connector_whose_worker_dies_before_its_first_snapshot_has_a_place_begins_again(
    lab,
):
    """Connect has an offset without a place then, by which Debezium's task fails ever after."""
    lab.prepare()
    connector = Connector(lab.pipeline())
    # A statement that is under way has Debezium wait for its lock.
    with closing(lab.stack.mysql().admin()) as holds, holds.cursor() as cursor:
        cursor.execute(f"SELECT GET_LOCK('{lab.name}', 60)")
        change = f"UPDATE {lab.name}.wide SET v = 'late' WHERE GET_LOCK('{lab.name}', 60)"
        under_way = threading.Thread(target=lab.sql, args=(change,))
        under_way.start()
        lab.start()
        lab.until(lambda: connector.offset() == {}, "an offset without a place")
        lab.kill("connect")
        cursor.execute(f"SELECT RELEASE_LOCK('{lab.name}')")
        under_way.join(60)
    lab.restart("connect")
    lab.until_equal(240)
    assert "it begins again" in (lab.folder / "job.log").read_text()
