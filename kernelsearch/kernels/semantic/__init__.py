"""The semantic axis of the language pyramid: graphs of related words."""
