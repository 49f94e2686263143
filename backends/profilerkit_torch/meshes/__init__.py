"""A training step of one rank of a mesh: its work, its memory and its collectives, in one process alone."""
