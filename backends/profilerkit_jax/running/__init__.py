"""One pass on a device: compiled once, then run; XLA's analysis of the program."""
