"""Traces of real devices: safe loaders of other projects' formats, and their tables."""
