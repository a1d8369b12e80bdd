"""Staleness rules: the weight of a late model."""
