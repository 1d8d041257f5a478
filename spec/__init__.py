"""What is wanted and what was found: frozen types. `load` is the only module here that reads a file."""
