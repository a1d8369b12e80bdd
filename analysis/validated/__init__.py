"""Predicted against measured: what analysis/validation.py is made of."""
