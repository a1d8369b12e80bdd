"""How much a late model counts."""
