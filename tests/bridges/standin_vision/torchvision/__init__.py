"""A stand-in for torchvision, where the installed one does not go with the installed torch."""
