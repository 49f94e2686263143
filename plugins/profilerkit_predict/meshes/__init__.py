"""The work, memory and communication of one rank of a mesh in a training step, without any devices."""
