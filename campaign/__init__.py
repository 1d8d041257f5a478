"""The run: phases, cells, resume, teardown."""
