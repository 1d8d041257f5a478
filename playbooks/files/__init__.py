"""Files that playbooks push to nodes and run there: standard library alone, or inside one locked environment."""
