"""The compiled loops of kernelsearch; everything else about the package is in setup.cfg.

They are optional: where no C compiler works, the installation goes on without them and numpy does their work.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "kernelsearch.core._loops",
            sources=[f"kernelsearch/core/{name}.c" for name in ("_loops", "_postings", "_runs", "_vectors")],
            depends=[f"kernelsearch/core/{name}.h" for name in ("_best_window", "_columns", "_loops")],
            # No contraction to fused operations and no reordering of sums: results are the same on every processor.
            extra_compile_args=["-std=c99", "-O3", "-ffp-contract=off", "-fno-trapping-math"],
            optional=True,
        )
    ]
)
