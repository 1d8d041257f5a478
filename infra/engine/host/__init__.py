"""Our own language host: runs the Python program for an engine that came without the official one."""
