"""Populations: the clients, edge servers and links of a scenario."""
