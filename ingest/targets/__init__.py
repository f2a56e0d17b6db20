"""What a change means for a table of the lake. Each ``Target`` is a file and a line in ``registry``; ``mirror_rows`` and
``multiset_rows`` make the rows that a MERGE takes.
"""
