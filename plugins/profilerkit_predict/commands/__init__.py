"""The commands of predictions: one module each."""
