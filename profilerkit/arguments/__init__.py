"""The rules of arguments: what each may be, how it is read, and what an error message shows of a value."""
