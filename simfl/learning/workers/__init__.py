"""Training on several cores: processes or threads, and the data between them."""
