"""How a function gets its arguments: status keys, functions, the registry, and the computation that joins them."""
