"""The private names of torch: the only folder that knows them, each with its purpose and the effect of its absence.

A release of torch may lack any of them. Then there is another way to the same numbers, or a capability is off: a call
that needs it raises `NotOfferedError`, or each trace names the missing capability, by ``names.lacking``. Every name is
looked up once, when its file is imported; only names of torch's compiler, which is slow to import, are looked up when
they are needed.

It is a folder, while backends with fewer private names have one file: a thousand lines about fourteen subjects, of
which most readers need one, would be hard to search in one file, and each import would look up all names.
"""
