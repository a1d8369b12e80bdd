"""Data sets: training data of the clients, and test data."""
