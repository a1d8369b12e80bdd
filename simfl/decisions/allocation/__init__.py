"""At which CPU frequency each client computes."""
