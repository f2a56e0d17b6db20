"""How far a pipeline is, what a DDL will do, and whether the lake equals its source."""
