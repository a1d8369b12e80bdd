"""One self-contained HTML page of a run or a study: opens offline, holds its own data."""
