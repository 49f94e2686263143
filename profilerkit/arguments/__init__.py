"""Bad input is refused by name: the rule of each argument, and what messages show of a value."""
