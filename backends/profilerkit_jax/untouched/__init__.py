"""Restores the model after each call: the modes of its layers, and the values of its variables."""
