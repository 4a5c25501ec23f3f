"""`python -m kernelsearch.classify`: text classifiers over multi-scale kernels, `kernelsearch.papers.classify`."""

from kernelsearch.cli import console
from kernelsearch.cli.verbs import declared_verb

main = declared_verb("classify")

if __name__ == "__main__":
    console.run(main)
