"""The contents of a model: modules, weights, and programs that were scripted or exported."""
