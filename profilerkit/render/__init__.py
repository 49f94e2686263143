"""Reports as what people look at: one form, one file."""
