"""Which edge server is dispatched next."""
