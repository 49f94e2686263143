"""Sequential networks in pure numpy and their backend: the example of `docs/writing-a-backend.rst`."""
