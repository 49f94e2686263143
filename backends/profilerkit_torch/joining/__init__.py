"""Profiles that torch.profiler made on any machine, joined with the layers of a model."""
