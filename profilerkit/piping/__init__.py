"""Arguments of functions: status keys, functions, the registry, and the computation that joins them."""
