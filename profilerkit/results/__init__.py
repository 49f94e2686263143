"""Results as data: reports, comparisons, and the files that hold them. Nothing here draws."""
