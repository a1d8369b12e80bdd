"""When clients can be asked to take part."""
