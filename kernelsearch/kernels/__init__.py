"""The mathematics, one idea a file."""
