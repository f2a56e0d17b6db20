"""Plain records read by Arrow, in the driver and in Spark's tasks: JSON to typed rows, what they mean for their table, and a table's changes
of one batch, cut into steps.
"""
