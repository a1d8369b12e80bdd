"""Protocols: the only package with both a clock and an algorithm."""
