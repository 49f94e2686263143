"""The private names of torch: the only folder that knows them, each with what it is for and what happens without it.

A release of torch may be without any of them. Then there is another way to the same numbers, or a capability is off:
a call that needs it raises `NotOfferedError`, or each trace says what is off, by ``names.lacking``. Every name is
looked for once, when its file is imported; only what belongs to torch's compiler, which is slow to import, is looked
for when it is asked for.

It is a folder, where backends with fewer such names have one file: a thousand lines about fourteen subjects, of which
most readers need one, would be no easier to find in one file, and whoever imports a name would look for all of them.
"""
