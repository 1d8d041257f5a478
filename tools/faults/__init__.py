"""Every fault of the local cloud, alone and in every pair: its exit code, nothing left, and the right bill."""
