"""What every room may use: it knows of no other room."""
