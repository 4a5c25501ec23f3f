"""Figures from commands: conditions with their expected figures, run on the collections that are at hand."""
