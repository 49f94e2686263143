"""The commands of audits, their progress on a terminal, and the parts that they share."""
