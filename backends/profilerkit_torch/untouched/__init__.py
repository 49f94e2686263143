"""Restores the model and the process after each call."""
