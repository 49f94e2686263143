"""The trace of one training step: the forward pass, and the gradients by the parameters."""
