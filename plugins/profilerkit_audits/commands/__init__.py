"""The commands of audits: a module for each group of commands."""
