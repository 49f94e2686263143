"""What a ``ModelProto`` holds: its graph, layers by the scopes of exporters, weights, declared inputs."""
