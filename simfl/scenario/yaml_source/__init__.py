"""YAML text, with the position of each value."""
