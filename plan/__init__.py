"""Pure decisions: recipe and nodes to placements, ports, commands and prices. No clock, network or environment."""
