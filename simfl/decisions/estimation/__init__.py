"""Estimators: expected durations from observed ones."""
