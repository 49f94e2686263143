"""One pass over the graphs of a file, on shapes alone: shapes, operators and their work."""
