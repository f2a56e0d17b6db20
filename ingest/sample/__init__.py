"""The sample world: a small shop (`sql/source/`), and realistic traffic on it."""
