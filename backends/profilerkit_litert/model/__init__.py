"""The content of a file: its graphs, tensors and signatures, the layers of its operators, and its weights."""
