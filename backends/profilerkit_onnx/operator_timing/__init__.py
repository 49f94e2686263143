"""Seconds of each operator and each layer, as the profiler of onnxruntime has them."""
