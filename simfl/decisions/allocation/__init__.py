"""Allocation: the CPU frequency of each client."""
