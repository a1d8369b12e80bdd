"""Models: what is trained, by name."""
