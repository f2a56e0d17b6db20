"""docs/performance.md's tables and pictures, made from the results in docs/results.

===========  ================================================================================
questions    P1 to P11: what each asks, which runs answer it, what its table and picture show
results      a question's results as they lie in ``docs/results``: medians, rounds, commit, machine
take         such results out of what a benchmark has written with ``--json``
pictures     what a picture says, as a value
drawing      the same as SVG, by matplotlib
page         the tables, and where they stand in the page
===========  ================================================================================
"""
