"""Search for settings: the space, the trials, the journal of results, the folds."""
