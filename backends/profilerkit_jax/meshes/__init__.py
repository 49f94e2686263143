"""The training step of one rank of a mesh, read from the program that XLA makes for each device of the mesh."""
