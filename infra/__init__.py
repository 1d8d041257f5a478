"""Pulumi: nodes made, listed, extended and deleted. Exports an `Inventory`."""
