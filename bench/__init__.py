"""Measurements that anyone can repeat; each says how in its docstring."""
