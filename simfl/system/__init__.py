"""The simulated system: seconds, joules, hertz and bits; no weights."""
