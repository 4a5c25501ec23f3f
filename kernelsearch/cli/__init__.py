"""What the verbs share: the parser, config files, Pyserini's flag names, progress bars, exit codes."""
