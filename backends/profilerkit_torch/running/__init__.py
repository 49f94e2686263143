"""One pass on a device, compiled or not, and the memory that it takes there."""
