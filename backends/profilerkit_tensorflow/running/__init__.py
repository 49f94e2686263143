"""One pass on a device, in each of TensorFlow's execution modes."""
