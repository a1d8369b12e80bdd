"""Partitions: which training example lies with which client."""
