"""What a model holds: layers, variables, weights, and the program that is traced from it."""
