"""What one rank of a mesh of devices does in a training step, holds and exchanges, before there are any devices."""
