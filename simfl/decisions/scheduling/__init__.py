"""Scheduling: the edge server that is dispatched next."""
