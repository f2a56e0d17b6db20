"""The files that the embedded Kafka and Connect read their settings from, in a folder of any name."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.config.java_properties import as_property
from ingest.local import connect, kafka


def as_java_reads(file):
    """The settings, by name: in Latin-1, a backslash before what stands for another letter, or for itself."""
    lines = (line for line in file.read_text("latin-1").split("\n") if line and line[0] != "#")
    pairs = (line.partition("=") for line in lines)
    return {name: unescaped(value.lstrip(" \t\f")) for name, _, value in pairs}


def unescaped(value):
    units = re.sub(r"\\(?:u([0-9a-f]{4})|(.))", lambda found: unit(*found.groups()), value)
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def unit(number, other):
    return chr(int(number, 16)) if number else {"n": "\n", "t": "\t", "r": "\r"}.get(other, other)


@pytest.fixture(params=["lake", "Küche", "湖 no. 1", "a\\b=c#d", "😀"])
def home(request, tmp_path, monkeypatch):
    folder = tmp_path / request.param
    folder.mkdir()
    for module in (connect, kafka):
        monkeypatch.setattr(module, "java_command", lambda *_: ["java"])
        monkeypatch.setattr(module.process, "start", lambda *_, **__: SimpleNamespace())
    return folder


def test_kafka_keeps_its_records_in_the_stack_s_folder(home):
    data = home / "kafka" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").touch()
    kafka.Kafka(home, 1, 2).start()
    said = as_java_reads(home / "kafka" / "server.properties")
    assert said["log.dirs"] == str(data)
    assert said["listeners"] == "BROKER://127.0.0.1:1,CONTROLLER://127.0.0.1:2"


def test_connect_finds_its_plugin_and_its_secrets(home, monkeypatch):
    monkeypatch.setattr(connect.artefacts, "debezium_plugin", lambda: home / "cache")
    connect.Connect(home, 1, "127.0.0.1:2").start()
    said = as_java_reads(home / "connect" / "worker.properties")
    assert said["plugin.path"] == str(home / "cache")
    assert said["config.providers.dir.param.allowed.paths"] == str(home / "secrets")
    assert said["bootstrap.servers"] == "127.0.0.1:2"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_read_back_as_it_was(text):
    assert as_property(text).isascii()
    assert "\n" not in as_property(text)
    assert unescaped(as_property(text)) == text


def test_a_plain_path_stays_readable():
    path = str(Path("/home/some-one/x_1/data"))
    assert as_property(path) == path
