"""One pass on a device of onnxruntime: sessions, what the runtime makes of a graph, and the memory that a pass takes."""
