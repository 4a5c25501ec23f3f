/* Inner products with stored vectors of documents: exact ones of a few rows of float16, and approximate ones of all rows by
   codes of eight bits. The sums of the former are added in the order that is written here, those of the latter are integers. */

#include <stdint.h>
#include <string.h>

#include "_loops.h"

/* As VECTORISED; products of 16-bit integers need AVX512BW to use the whole width. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define VECTORISED_INTEGERS __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define VECTORISED_INTEGERS
#endif

/* Places that are added up separately, and rows of codes that stay in the cache for all queries. */
enum { LANES = 16, BLOCK = 256 };

/* The float with the value of a finite float16, given by its bits. */
static inline float single(uint16_t half)
{
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t normal = magnitude + UINT32_C(0x38000000), subnormal = magnitude + UINT32_C(0x38800000);
    float value, small;
    memcpy(&value, &normal, sizeof value);
    memcpy(&small, &subnormal, sizeof small);
    small -= 6.103515625e-05f; /* 2^-14 */
    value = magnitude < UINT32_C(0x00800000) ? small : value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

VECTORISED static float half_product(const uint16_t *restrict row, const float *restrict vector, int64_t dims)
{
    float sums[LANES] = {0};
    int64_t k = 0;
    for (; k + LANES <= dims; k += LANES)
        for (int lane = 0; lane < LANES; lane++) sums[lane] += single(row[k + lane]) * vector[k + lane];
    for (int lane = 0; k < dims; k++, lane++) sums[lane] += single(row[k]) * vector[k];
    for (int width = LANES / 2; width; width /= 2)
        for (int lane = 0; lane < width; lane++) sums[lane] += sums[lane + width];
    return sums[0];
}

/* Inner products of `vector` (dims) with the rows `docs` (count) of a matrix (rows, dims) of float16. out (count). */
int kernelsearch_half_products(
    const uint16_t *matrix, int64_t rows, int64_t dims, const float *vector, const int32_t *docs, int64_t count, float *out)
{
    for (int64_t d = 0; d < count; d++)
        if (docs[d] < 0 || docs[d] >= rows) return OUT_OF_RANGE;
    for (int64_t d = 0; d < count; d++) {
        if (d + AHEAD < count) prefetch(matrix + docs[d + AHEAD] * dims, dims * (int64_t)sizeof *matrix);
        out[d] = half_product(matrix + docs[d] * dims, vector, dims);
    }
    return GOOD;
}

VECTORISED_INTEGERS static void block_products(
    const int8_t *restrict codes, int64_t rows, int64_t dims, const int16_t *restrict query, int32_t *restrict out)
{
    for (int64_t row = 0; row < rows; row++) {
        const int8_t *code = codes + row * dims;
        int32_t sum = 0;
        for (int64_t k = 0; k < dims; k++) sum += (int16_t)code[k] * query[k];
        out[row] = sum;
    }
}

/* Inner products of `queries` (count, dims) with `codes` (rows, dims), which the caller keeps below the range of 32 bits.
   out (count, rows). */
int kernelsearch_code_products(
    const int8_t *codes, int64_t rows, int64_t dims, const int16_t *queries, int64_t count, int32_t *out)
{
    for (int64_t start = 0; start < rows; start += BLOCK) {
        const int64_t size = rows - start < BLOCK ? rows - start : BLOCK;
        for (int64_t number = 0; number < count; number++)
            block_products(codes + start * dims, size, dims, queries + number * dims, out + number * rows + start);
    }
    return GOOD;
}
