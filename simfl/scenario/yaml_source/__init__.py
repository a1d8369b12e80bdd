"""YAML text, and where in it each value stands."""
