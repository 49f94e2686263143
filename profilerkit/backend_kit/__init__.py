"""Shared code for authors of backends: the stack of running layers, live bytes, optimizers, Keras layers."""
