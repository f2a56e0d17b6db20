"""How long Kafka keeps the topics that are there already. Connect says it of a topic when it makes it, and never again: who raises
``kafka.retention_hours`` behind a gap would lose records once more.

Only ever longer: a topic that somebody keeps for longer than the pipeline file says is left so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.model.counted import counted

_NAME = "retention.ms"
_FOR_EVER = -1
_WITHIN = 30.0
"""Seconds for an answer."""
_AWAY = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
)
"""What time mends. All else somebody has decided, or a broker cannot do."""


def too_short(kept: Mapping[str, int], wanted: int) -> list[str]:
    """Topics that are kept for less than is wanted. In ms; -1: for ever. Pure."""
    return sorted(one for one, found in kept.items() if found != _FOR_EVER and found < wanted)


def lengthen(pipeline: Pipeline, say: Callable[[str], None]) -> None:
    """Have each topic of the pipeline's tables kept for as long as its file says, where it does. Where Kafka does not let us, that is said: nothing
    is lost by it yet. Raises :class:`IngestError` where Kafka is away.
    """
    if "retention_hours" not in pipeline.kafka.model_fields_set:
        return  # nobody has asked for it, and somebody may have had topics kept for less
    wanted = pipeline.kafka.retention_hours * 3_600_000
    hours = counted(pipeline.kafka.retention_hours, "hour")
    admin = AdminClient(broker.connection(pipeline), logger=broker.Silent())
    try:
        short = too_short(_kept(admin, broker.data_topics(pipeline)), wanted)
        if not short:
            return
        _set(admin, short, wanted)
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        if error.code() in _AWAY:
            raise broker.away(pipeline, failure) from None
        say(
            f"Kafka does not let us keep topics for the {hours} of `kafka.retention_hours` ({error.str()}); somebody who may: "
            f"`kafka-configs.sh --alter --entity-type topics --entity-name TOPIC --add-config {_NAME}={wanted}`"
        )
    else:
        say(
            f"Kafka keeps {counted(len(short), 'topic')} for {hours} from now on, as `kafka.retention_hours` says"
        )


def _kept(admin: AdminClient, topics: Iterable[str]) -> dict[str, int]:
    """In ms, by topic; without those that were deleted meanwhile."""
    asked, found = [ConfigResource(ResourceType.TOPIC, one) for one in topics], dict[str, int]()
    answers = admin.describe_configs(asked, request_timeout=_WITHIN) if asked else {}
    for one, answer in answers.items():
        try:
            found[one.name] = int(answer.result()[_NAME].value)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def _set(admin: AdminClient, topics: Iterable[str], wanted: int) -> None:
    entry = ConfigEntry(_NAME, str(wanted), incremental_operation=AlterConfigOpType.SET)
    asked = [ConfigResource(ResourceType.TOPIC, one, incremental_configs=[entry]) for one in topics]
    for answer in admin.incremental_alter_configs(asked, request_timeout=_WITHIN).values():
        answer.result()
