"""`python -m kernelsearch.ltr`: learning to rank from files of features (LETOR), `kernelsearch.papers.ltr`."""

from kernelsearch.cli import console
from kernelsearch.cli.verbs import declared_verb

main = declared_verb("ltr")

if __name__ == "__main__":
    console.run(main)
