"""Encoders: from texts to vectors, for documents and for queries. Their libraries are imported when an encoder is opened."""

from kernelsearch.encoders.base import Encoder, open_encoder

__all__ = ["Encoder", "open_encoder"]
