"""Running a scenario, and its run folder."""
