"""Association: the edge server of each client."""
