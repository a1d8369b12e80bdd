"""Learning: training and evaluation of models, without a clock."""
