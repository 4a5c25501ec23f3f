"""What every other package builds on: types, errors, options, files, artefacts. It imports no other package of kernelsearch."""
