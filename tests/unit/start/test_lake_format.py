"""A lake of another format is refused in a sentence, and nothing of it is touched."""

import copy
import json

import pytest
from deltalake import DeltaTable, Schema

from ingest.lake.files.storage import LocalFiles
from ingest.model import manifest
from ingest.model.errors import IngestError
from ingest.model.names import manifest_path, upgrade_path
from ingest.schema.delta_types import fields_json
from ingest.start import lake_format
from ingest.start.lake_format import FORMAT, Found, lacking, noted, refusal, refuse_other

SCHEMA = fields_json(manifest.SCHEMA)
FIRST = fields_json(manifest.FIRST_SCHEMA)


def made(folder, schema):
    DeltaTable.create(manifest_path(str(folder)), Schema.from_json(json.dumps(schema)))
    return str(folder)


def held(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def names(schema, of=""):
    """Of all fields, at any depth."""
    for field in schema["fields"]:
        yield f"{of}{field['name']}"
        yield from names(
            lake_format._struct(field["type"]) or {"fields": []}, f"{of}{field['name']}."
        )


def without(schema, name):
    first, _, rest = name.partition(".")
    if not rest:
        schema["fields"] = [one for one in schema["fields"] if one["name"] != first]
        return schema
    (field,) = [one for one in schema["fields"] if one["name"] == first]
    without(lake_format._struct(field["type"]), rest)
    return schema


def test_a_new_folder_and_a_lake_of_today_are_gone_on_with(tmp_path):
    refuse_other(str(tmp_path))
    refuse_other(made(tmp_path, SCHEMA))


def test_one_whose_manifest_has_what_the_first_format_had_is_gone_on_with(tmp_path):
    refuse_other(made(tmp_path, FIRST))


@pytest.mark.parametrize("name", list(names(FIRST)))
def test_a_manifest_that_lacks_anything_that_is_read_from_it_is_refused_and_says_what(name):
    found = tuple(lacking(FIRST, without(copy.deepcopy(SCHEMA), name)))
    assert found == (name,)
    assert refusal("lake", Found(FORMAT, found)).code == "E-LAKE-OLDER"


def test_one_of_before_a_break_of_the_format_is_refused_untouched(tmp_path):
    lake = made(tmp_path, without(without(copy.deepcopy(SCHEMA), "tables.engine"), "stages"))
    before = held(tmp_path)
    with pytest.raises(IngestError, match=r"E-LAKE-OLDER.*tables\.engine, stages"):
        refuse_other(lake)
    assert held(tmp_path) == before


def test_one_of_a_newer_version_is_refused_untouched(tmp_path):
    lake = made(tmp_path, SCHEMA)
    LocalFiles(upgrade_path(lake)).write("done.json", json.dumps({"format": FORMAT + 1, "more": 1}))
    before = held(tmp_path)
    with pytest.raises(IngestError, match=f"E-LAKE-NEWER.*format {FORMAT + 1}"):
        refuse_other(lake)
    assert held(tmp_path) == before


def test_more_than_is_read_does_no_harm(tmp_path):
    more = copy.deepcopy(SCHEMA)
    more["fields"].append({"name": "later", "type": "long", "nullable": True, "metadata": {}})
    refuse_other(made(tmp_path, more))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"format": null}', '{"other": 3}'])
def test_a_note_that_a_power_cut_has_torn_says_nothing(tmp_path, text):
    LocalFiles(upgrade_path(str(tmp_path))).write("done.json", text)
    assert noted(str(tmp_path)) == 0
    lake_format.note(str(tmp_path))
    assert noted(str(tmp_path)) == FORMAT
