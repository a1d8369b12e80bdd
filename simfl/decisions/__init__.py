"""Who, with whom, how fast: pure functions of what the decider has observed."""
