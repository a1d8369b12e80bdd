"""What the numbers become. Never sees a clock."""
