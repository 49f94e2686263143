"""Checks of arguments: which values a parameter may have, and how they are read."""
