"""What a model will cost where it is not yet: times on a device, language models, and profiles from elsewhere."""
