"""Plugins: how they are found, what they offer, and how the others go on when one of them fails."""
