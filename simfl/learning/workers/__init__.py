"""Training on several cores: processes or threads, and what crosses between them."""
