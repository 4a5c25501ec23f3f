"""Collections from token lists, as the tests of the kernels have them."""

from tests.kernels.conftest import make_collection

__all__ = ["make_collection"]
