"""What-if studies: many runs of one scenario with other keys, and what they say together."""
