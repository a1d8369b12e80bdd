"""Validation of a scenario's values by the types of its fields."""
