"""Decision rules: selection, association, scheduling, allocation, staleness, estimation."""
