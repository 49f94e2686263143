"""What is found out about a language model, as plain numbers: its work, cache and weights."""
