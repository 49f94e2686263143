"""The trace of one training step."""
