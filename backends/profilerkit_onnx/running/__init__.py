"""One pass of onnxruntime on a device: sessions, the optimized graph, and the memory that a pass takes."""
