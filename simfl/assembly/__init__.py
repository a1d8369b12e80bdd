"""Assembly of a scenario into a runnable simulation: finds, builds and checks its parts."""
