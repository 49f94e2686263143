"""What a model holds: modules, weights, and programs that were scripted or exported."""
