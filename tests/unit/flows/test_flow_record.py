"""What a flow keeps of itself is found again, also as an earlier `ingest` has written it."""

import json
from pathlib import Path

from ingest.flows.continuity import Fingerprint
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.testing.lake import pipeline_at

MADE = Fingerprint((("words", "w"),), "append", (), "p", "f")


def test_a_record_is_as_it_was_kept_and_one_of_before_knows_no_epochs(tmp_path):
    folder = FlowFolder(pipeline_at(tmp_path / "lake"), "f")
    kept = FlowRecord(2, "c", MADE, ("delta:out",), (("redis:cache/w", 3),))
    folder.keep(kept)
    assert folder.record() == kept
    assert (kept.epoch("redis:cache/w"), kept.epoch("redis:cache/v")) == (3, 0)
    file = Path(folder.path) / "flow.json"
    said = json.loads(file.read_text())
    del said["epochs"]
    file.write_text(json.dumps(said))
    assert folder.record() == FlowRecord(2, "c", MADE, ("delta:out",))


def test_a_flow_that_begins_again_knows_the_epochs_of_before():
    assert FlowRecord.first(MADE, 2, (("redis:cache/w", 3),)).epochs == (("redis:cache/w", 3),)
