"""Gives the model back as it was, and the process around it."""
