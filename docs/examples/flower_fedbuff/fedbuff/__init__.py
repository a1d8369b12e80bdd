"""FedBuff as a Flower app."""
