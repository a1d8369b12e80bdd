"""How many models of one architecture are computed at once."""
