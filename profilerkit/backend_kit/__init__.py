"""What authors of backends share: the stack of running layers, live bytes, optimizers, Keras' layers."""
