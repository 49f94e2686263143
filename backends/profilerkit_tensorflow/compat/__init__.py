"""The private names of TensorFlow: the only folder that knows them, each with what it is for and what is without it.

A release may be without any of them. Then there is another way to the same numbers, or a capability is off: what needs
it raises `NotOfferedError`, what is counted is a lower bound, or each report says what is off (``names.lacking``).

It is a folder as in the backend of torch, with files of the same subjects where both have them; and whoever imports a
name looks for those of its subject alone.
"""
