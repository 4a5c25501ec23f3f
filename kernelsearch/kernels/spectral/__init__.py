"""The spectrum of a document kernel: truncated SVD of its features, Nyström for kernels without features."""

from kernelsearch.kernels.spectral.blocks import RowBlocks, Rows
from kernelsearch.kernels.spectral.decompose import Decomposition, decompose
from kernelsearch.kernels.spectral.nystrom import NystromMap, choose_landmarks

__all__ = ["Decomposition", "NystromMap", "RowBlocks", "Rows", "choose_landmarks", "decompose"]
