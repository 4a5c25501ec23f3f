"""Reproduction of figures: conditions with expected figures, run on the collections that are at hand."""
