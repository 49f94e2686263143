"""What is measured of a device, so that times on it can be predicted; loaded where predictions ask for it."""
