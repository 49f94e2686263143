"""The private names of TensorFlow. Only this folder has them; it states the use of each, and the effect of its lack.

A release may lack any of them. Then there is another way to the same numbers, or a capability is off: it raises
`NotOfferedError`, its counts are lower bounds, or each report has a note (``names.lacking``).

It is a folder as in the backend of torch, with files for the same subjects. Importing a name looks only for the names
of its subject.
"""
