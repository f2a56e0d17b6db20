"""Kafka: the stream over all topics, offsets, records fetched by librdkafka, and what a batch asks of all this."""
