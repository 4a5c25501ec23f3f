"""Pictures: every plot of the package, and the one function that saves a figure."""
