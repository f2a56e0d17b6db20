"""Kafka's records as changes, DataFrame to DataFrame: envelopes, row images, re-sent changes, one winner per
key.
"""
