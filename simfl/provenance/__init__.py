"""What a run's results are made of: keys, what was computed before, and how to go on from it."""
