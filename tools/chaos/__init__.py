"""Kill anything, anywhere, under a contrary cloud; then let only documented recovery act, and read the meter."""
