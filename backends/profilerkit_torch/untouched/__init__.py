"""The model comes back as it was, and the process around it."""
