"""Which edge server each client belongs to."""
