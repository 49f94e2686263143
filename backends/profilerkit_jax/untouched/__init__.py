"""The model comes back as it was: the modes of its layers, and the values of its variables."""
