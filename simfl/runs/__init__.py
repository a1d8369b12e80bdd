"""Running a scenario, and the folder that a run leaves behind."""
