"""The cost of a model on other machines: times on a device, language models, and profiles from elsewhere."""
