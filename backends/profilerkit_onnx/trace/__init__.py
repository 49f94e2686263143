"""The static pass: the walk over the graph on shapes alone, constants folded on the way, and live bytes along it."""
