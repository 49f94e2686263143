"""One pass on a device: compiled once, then run; what XLA says of the program that it made."""
