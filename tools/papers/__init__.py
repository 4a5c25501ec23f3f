"""Scripts that compute the tables of a paper's page, and what only they need."""
