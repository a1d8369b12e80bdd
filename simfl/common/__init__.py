"""Utilities for all packages, without dependencies on any other."""
