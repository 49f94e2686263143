"""One pass of onnxruntime on a device: sessions, what it makes of a graph, and the memory that a pass takes."""
