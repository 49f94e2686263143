"""Passes of onnxruntime on a device: sessions, the optimized graph, the seconds of its nodes, and the memory."""
