"""Each path beside its peer in the same run; `make bench` writes docs/speed.md with it.

A module per kind of path: `searching`, `building`, `evaluating`, `vectors`, `service`. `measuring` has what they share, `peers`
is the process that runs other libraries, `page` writes the page.
"""
