"""Provenance of results: keys, reuse of earlier results, and resuming."""
