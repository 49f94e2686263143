"""The static pass: a model traced as a graph, the walk over that graph, and live bytes along it."""
