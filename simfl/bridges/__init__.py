"""Bridges: apps of other frameworks on simfl's simulated machines and clock."""
