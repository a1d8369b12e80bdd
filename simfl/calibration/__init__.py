"""Calibration: from measurements of your own machines to profiles with error bars."""
