"""Profiles that JAX made, joined with the layers of a model."""
