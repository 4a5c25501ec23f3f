/* What the files of the compiled loops share. */

#ifndef KERNELSEARCH_LOOPS_H
#define KERNELSEARCH_LOOPS_H

/* A function marked VECTORISED is compiled once per width of the vector registers, where the compiler can do that. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORISED
#endif

/* What functions return; compiled.py's `check` raises the errors. UNUSUAL: a text that Python has to read. */
enum { GOOD = 0, OUT_OF_RANGE = 1, OUT_OF_MEMORY = 2, UNUSUAL = 3 };

#endif
