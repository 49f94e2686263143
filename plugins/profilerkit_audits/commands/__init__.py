"""The commands of audits: one module each, and what they share."""
