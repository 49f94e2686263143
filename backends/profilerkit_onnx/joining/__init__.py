"""Profiles that onnxruntime made on any machine, joined with the layers of a model."""
