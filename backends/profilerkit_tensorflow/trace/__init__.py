"""The static pass: the walk over a traced graph, and live bytes along it."""
