"""A manifest that Spark writes, beyond this machine's disk, is one that delta-rs would have written."""

from dataclasses import replace
from random import Random

import pytest

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.manifest import part_rows
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.lake.manifest.manifest_writer import Publisher
from ingest.model.names import Role, app_id
from tests.support.ledgers import history
from tests.unit.lake.test_manifest import agrees, of_today_s_form, rows


@pytest.mark.parametrize("old", [pytest.param(0, marks=pytest.mark.long), 3])
def test_it_gets_its_columns_with_the_first_row_and_says_what_was_published(
    spark, tmp_path, monkeypatch, old
):
    monkeypatch.setattr(part_rows, "EVERY", 4)
    entries = [replace(one, term=1, kind="batch") for one in history(Random(6), 9)]
    if old:
        of_today_s_form(tmp_path, entries[:old])
    publisher = Publisher(spark, str(tmp_path), Committer(1))
    publisher._direct = None
    app = app_id("p", "c", "_ingest", Role.MANIFEST)
    for entry in entries[old:]:
        publisher.add(entry, Identity(app, entry.batch_id))
    agrees(Ledger(str(tmp_path)), entries)
    assert any(one["base"] for one in rows(tmp_path))
