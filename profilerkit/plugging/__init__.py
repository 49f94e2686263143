"""Plugins: how they are found, what they offer, and what happens to the rest when one fails."""
