"""Plugins: loading them, the objects that they offer, and the containment of their errors."""
