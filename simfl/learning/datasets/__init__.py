"""Data sets: what the clients train on and what the models are tested on."""
