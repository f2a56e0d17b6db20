"""Names that stand in every lake stay what they are."""

import json
import tarfile
from pathlib import Path

import pytest

from ingest.model import names
from ingest.model.names import Marker, Role, app_id, app_id_parts

EARLIER = Path(__file__).parents[2] / "data" / "lake_b51fb81.tar.gz"


def test_tables_of_an_earlier_lake_say_by_today_s_names_what_their_source_and_their_key_are():
    found = {}
    with tarfile.open(EARLIER) as packed:
        for member in packed.getmembers():
            parts = Path(member.name).parts
            if parts[-1:] == ("00000000000000000000.json",) and "_ingest" not in parts:
                lines = packed.extractfile(member).read().decode().splitlines()
                (metadata,) = (
                    one["metaData"] for one in map(json.loads, lines) if "metaData" in one
                )
                found[".".join(parts[-4:-2])] = metadata["configuration"]
    assert len(found) == 6
    assert {name: said.get(names.SOURCE_PROPERTY) for name, said in found.items()} == {
        name: name for name in found
    }
    assert all(names.KEY_PROPERTY in said for said in found.values())


def test_commit_versions_order_by_term_then_batch_then_step_and_never_collide():
    markers = [Marker(t, b, s) for t in (0, 1, 9) for b in (0, 1, 2**30 - 1) for s in (0, 8191)]
    versions = [marker.version for marker in markers]
    assert versions == sorted(set(versions))
    assert [Marker.parse(version) for version in versions] == markers
    assert max(versions) < 2**63
    for beyond in (Marker(2**20, 0, 0), Marker(0, 2**30, 0), Marker(0, 0, 8192)):
        with pytest.raises(ValueError):
            _ = beyond.version


def test_app_ids_of_tables_with_slashes_in_their_names_do_not_collide():
    assert app_id("p", "c", "a/b", Role.MIRROR) != app_id("p", "c/a", "b", Role.MIRROR)
    assert app_id_parts(app_id("p", "c", "a/b", Role.MIRROR)) == ("p", "c", "a/b", "mirror")
    assert app_id_parts("somebody/else") is None
