"""The contents of a model: layers, variables and weights; how it is called, and which inputs it takes."""
