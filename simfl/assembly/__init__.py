"""From a scenario to a simulation that can run: its parts found, built and checked together."""
