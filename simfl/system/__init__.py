"""What it costs: seconds, joules, hertz and bits. This room never sees a weight."""
