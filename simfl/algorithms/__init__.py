"""One paper, one file: no clock, no hardware."""
