"""Values of a scenario against the types of its fields."""
