"""A scenario: the YAML file that describes one simulation, read, checked and frozen."""
