"""Populations: what the clients, edge servers and links of a scenario are."""
