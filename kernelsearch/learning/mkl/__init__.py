"""Multiple kernel learning for classification."""
