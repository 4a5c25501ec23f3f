"""Learning to rank from files of features (LETOR): the verb `ltr`."""
