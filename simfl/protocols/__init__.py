"""Choreography: the only room with both a clock and an algorithm."""
