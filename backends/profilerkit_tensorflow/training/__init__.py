"""What a training step needs besides the trace: the state of the optimizer."""
