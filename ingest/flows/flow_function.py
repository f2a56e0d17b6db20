"""The function of a flow, as its user wrote it: Python, or one SELECT."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from ingest.config.flow_settings import Flow
from ingest.model.errors import IngestError


@dataclass(frozen=True)
class FlowFunction:
    """``text``: the source, by which a change of it is noticed; ``of``: from the inputs, by name, to the result. In a session, whose views
    it may use.
    """

    text: str
    of: Callable[[SparkSession, Mapping[str, DataFrame]], DataFrame]

    @property
    def digest(self) -> str:
        """Of the source."""
        return _digest(self.text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_of(name: str, flow: Flow) -> str:
    """Of the source, which is not run. Raises :class:`IngestError` where its file is not there."""
    return _digest(_text(name, flow.sql or (flow.python or "").rpartition(":")[0]))


def load(name: str, flow: Flow) -> FlowFunction:
    """Raises :class:`IngestError` where the file is not there, cannot be run, or has no such function."""
    return _of_sql(name, flow.sql) if flow.sql else _of_python(name, flow.python or "")


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        why = failure.strerror if isinstance(failure, OSError) else "it is no UTF-8 text"
        raise refusal(name, f"its file {path} cannot be read: {why}") from None


def _of_sql(name: str, path: str) -> FlowFunction:
    text = _text(name, path)

    def of(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        for one, frame in inputs.items():
            frame.createOrReplaceTempView(one)
        return session.sql(text.strip().rstrip(";"))

    return FlowFunction(text, of)


def _of_python(name: str, place: str) -> FlowFunction:
    path, _, function = place.rpartition(":")
    text, module_name = _text(name, path), f"ingest_flow_{name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as failure:
        raise refusal(
            name, f"{path} cannot be run: {type(failure).__name__}: {failure}"
        ) from failure
    # Spark's workers cannot import it, so what they need of it goes with the tasks.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[attr-defined, no-untyped-call, unused-ignore]
    call = getattr(module, function, None)
    if not callable(call):
        raise refusal(name, f"{path} has no function {function!r}")

    def of(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        del session
        found = call(**inputs)
        if not isinstance(found, DataFrame):
            raise refusal(name, f"{place} returned {type(found).__name__}, and no DataFrame")
        return found

    return FlowFunction(text, of)


def refusal(name: str, why: str) -> IngestError:
    """A flow that cannot be run as it is."""
    return IngestError(
        "E-FLOW-FUNCTION",
        f"The flow {name!r}: {why}.",
        means="It was not started; the mirrors and all other flows go on.",
        remedy="mend the function; a run tries it again by itself.",
    )
