"""Models, by name."""
