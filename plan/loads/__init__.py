"""Load generators: how each is started, and what its exports mean."""
