"""Pure decisions: from a recipe and nodes to placements, ports, commands and prices. No clock, network or environment."""
