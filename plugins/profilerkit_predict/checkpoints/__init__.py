"""How checkpoints store weights: formats, the quantization that a configuration names, and the headers of files."""
