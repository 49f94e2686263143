"""Forward and backward seconds of each layer."""
