"""One pass on a device, as TensorFlow people run it."""
