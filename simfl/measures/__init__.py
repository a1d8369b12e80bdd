"""The event log into numbers: fairness, cost, participation, accuracy, certificates."""
