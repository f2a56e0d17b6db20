"""The words that all rooms share: positions in MySQL's log, topics and tables, the manifest's entry, errors,
names. Imports no other room.
"""
