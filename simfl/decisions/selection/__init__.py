"""Selection: the clients that take part in a round."""
