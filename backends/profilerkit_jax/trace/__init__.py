"""The static pass: a model traced as a jaxpr, the walk over its equations, and live bytes along them."""
