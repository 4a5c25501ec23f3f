"""`python -m kernelsearch.reproduce`: measures the published figures again, `kernelsearch.papers.reproduce`."""

from kernelsearch.cli import console
from kernelsearch.cli.verbs import declared_verb

main = declared_verb("reproduce")

if __name__ == "__main__":
    console.run(main)
