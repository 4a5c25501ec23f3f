/* What the files of the compiled loops share. */

#ifndef KERNELSEARCH_LOOPS_H
#define KERNELSEARCH_LOOPS_H

/* A function marked VECTORISED is compiled once per width of the vector registers, where the compiler can do that. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORISED
#endif

#include <stdint.h>

/* Asks for the memory of an array before it is needed; rows are read in any order, which the processor can't foresee. */
#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif
enum { CACHE_LINE = 64, AHEAD = 8 }; /* bytes; rows between the one that is asked for and the one that is read */

static inline void prefetch(const void *start, int64_t bytes)
{
    for (int64_t byte = 0; byte < bytes; byte += CACHE_LINE) PREFETCH((const char *)start + byte);
}

/* The place of the lowest bit that is set; `bits` is not 0. */
static inline int lowest_bit(uint64_t bits)
{
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int place = 0;
    while (!(bits >> place & 1)) place++;
    return place;
#endif
}

/* What functions return; compiled.py's `check` raises the errors. UNUSUAL: a text that Python has to read. */
enum { GOOD = 0, OUT_OF_RANGE = 1, OUT_OF_MEMORY = 2, UNUSUAL = 3 };

#endif
