"""Seconds of each layer, from the operators that onnxruntime ran in it."""
