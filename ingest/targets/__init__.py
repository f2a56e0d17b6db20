"""What a change means for a table of the lake: the MERGE of a mirror, and of a table without a key."""
