"""Seconds of each operator in each layer, as the profiler of onnxruntime has them."""
