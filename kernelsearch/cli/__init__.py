"""What the verbs share: parsers, config files, the flags of Pyserini, progress bars, exit codes."""
