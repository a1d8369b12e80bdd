"""Figures, reports and timelines of runs and studies."""
