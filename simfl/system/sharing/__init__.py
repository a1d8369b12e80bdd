"""Media that several senders share at a time: who gets how much, and when transfers end."""
