"""Small convex programs."""
