"""Self-contained HTML reports of a run or a study, usable offline."""
