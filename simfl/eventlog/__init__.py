"""The event log: what happens, when, to whom, and at what cost."""
