"""The mathematics, one idea per file."""
