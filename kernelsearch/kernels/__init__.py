"""Kernels, language models, relevance feedback and decompositions, one idea per module."""
