"""Forward and backward seconds of each layer, and of the steps of a training loop."""
