"""What one rank of a mesh does in a training step: read from the program that XLA makes for each device of it."""
