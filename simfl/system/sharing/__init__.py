"""Media shared by simultaneous senders: their rates, and when transfers end."""
