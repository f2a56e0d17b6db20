"""Recipes: one thing that streaming does, shown by one command on this machine, its output on the screen.

Each is a module with a function ``show``, which takes a :class:`stage.Stage` and returns what it has shown, for its test. ``docs/recipes`` has
a page for each.
"""
