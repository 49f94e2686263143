"""What a model holds: layers, variables and weights; how it is called, and which inputs it takes."""
