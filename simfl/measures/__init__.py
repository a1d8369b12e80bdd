"""Measures of a finished run: fairness, cost, participation, accuracy, certificates."""
