"""The click log: reading, storing, preference pairs, similar queries, simulation."""
