"""Tests: every name is a claim."""
