"""Learning to rank: lists, gradients, learners and their selection."""
