"""Names that stand in every lake stay what they are."""

import json
import tarfile
from pathlib import Path

from ingest.model import names

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
