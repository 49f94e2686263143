"""The contents of a ``ModelProto``: its graph, layers by the scopes of exporters, weights, declared inputs."""
