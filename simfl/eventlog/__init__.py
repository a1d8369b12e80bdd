"""The event log: what happened, when, to whom, and what it cost."""
