"""Flows: streaming queries of their own, which go on from change logs, topics and files.

A flow is a function of DataFrames. Everything that makes it a safe job is here: its inputs, its checkpoint and lease, an identity for
each sink, what comes late, and whether it can go on where its function was changed. The way through: ``flow_runs`` keeps a flow
running, ``flow_query`` starts its query and says what a batch does.
"""
