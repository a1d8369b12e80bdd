"""Availability: when clients can take part."""
