"""From what a stopwatch and a wattmeter said of one's own machines to profiles with error bars."""
