"""MySQL and the Debezium connector before it: what they hold, how far they are, and tables asked for again."""
