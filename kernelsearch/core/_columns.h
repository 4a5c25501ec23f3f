/* Columns of a text at one level of the pyramid, and their similarities with the columns of a query. A part of _loops.c. */

#ifndef KERNELSEARCH_COLUMNS_H
#define KERNELSEARCH_COLUMNS_H

#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_loops.h"

/* ln x for positive normal x, with an error of less than two units in the last place. The mantissa m lies between the roots of
   1/2 and 2, and ln m = 2 artanh s for s = (m - 1) / (m + 1); coefficients of FreeBSD's e_log.c. It has no branches and no
   table, so that compilers compute several at a time. */
static inline double logarithm(double x)
{
    const uint64_t one = UINT64_C(0x3ff0000000000000), root_half = UINT64_C(0x3fe6a09e667f3bcd);
    uint64_t bits, exponent;
    double mantissa, power, s, z, series;
    memcpy(&bits, &x, sizeof bits);
    bits += one - root_half;
    /* The exponent as the last bits of 2^52, since integers of 64 bits are slow to convert. */
    exponent = (bits >> 52) | UINT64_C(0x4330000000000000);
    memcpy(&power, &exponent, sizeof power);
    power -= 4503599627370496.0 + 1023.0;
    bits = (bits & UINT64_C(0x000fffffffffffff)) + root_half;
    memcpy(&mantissa, &bits, sizeof mantissa);
    s = (mantissa - 1.0) / (mantissa + 1.0);
    z = s * s;
    series = 1.531383769920937332e-01 + z * 1.479819860511658591e-01;
    series = 1.818357216161805012e-01 + z * series;
    series = 2.222219843214978396e-01 + z * series;
    series = 2.857142874366239149e-01 + z * series;
    series = 3.999999999940941908e-01 + z * series;
    series = 6.666666666666735130e-01 + z * series;
    return power * 6.931471805599453094e-01 + (s * 2.0 + s * (z * series));
}

static inline double at_least_tiny(double x) { return x > DBL_MIN ? x : DBL_MIN; }

/* x ln x, 0 at 0 */
static inline double phi(double x) { return x * logarithm(at_least_tiny(x)); }

VECTORISED static void phis(const double *restrict x, double *restrict out, int64_t count)
{
    for (int64_t k = 0; k < count; k++) out[k] = phi(x[k]);
}

VECTORISED static void phis_of_sums(const double *restrict x, const double *restrict y, double *restrict out, int64_t count)
{
    for (int64_t k = 0; k < count; k++) out[k] = phi(x[k] + y[k]);
}

/* A cell's part of the similarity, psi of kernels/pyramid/matching.py. */
static double psi(double a, double b) { return 0.5 * (phi(a + b) - phi(a) - phi(b)); }

/* What a token gives to rows is added in blocks, which rows of nothing fill up: most words give to few rows, and blocks spare the
   processor a branch that it can't predict. */
enum { BLOCK = 4 };

/* What a query needs at one level, and room for document columns. */
typedef struct {
    int64_t rows, columns, slots;
    const double *query;      /* (columns, rows + 1): distributions; the last cell is all other words */
    const double *floor;      /* (rows + 1): a document column of nothing but background */
    double eta;
    const int64_t *lent_ends; /* (slots + 1): what a token of a slot gives to the rows */
    const int32_t *lent_rows;
    const double *lent;
    const double *held;       /* (slots): the sum of what a token of a slot gives */
    int64_t masks;            /* words of 64 bits, one bit per row */
    uint64_t *slot_rows;      /* (slots, masks): the rows that a token of a slot gives to */
    double *other_phi;        /* (columns): phi of the query's mass on all other words */
    double *base;             /* (columns): similarity of a column of nothing but background, without the other words */
    double *change;           /* (columns, rows): what a filled cell's phi(a + floor) - phi(floor) was */
    double *alike;            /* (rows): phi(2 floor) - phi(floor) */
    int64_t *own_ends;        /* (rows + 1): the query columns that have more than background in a row, */
    int32_t *own_column;      /* their numbers, */
    double *own_query;        /* their cells in the row, */
    double *own_change;       /* and what these change of phi(2 floor) - phi(floor) */
    /* the document column that is being added up */
    uint64_t *filled_rows;    /* (masks): the rows that have mass; all 0 between columns */
    double *mass;             /* (rows + BLOCK): all 0 between columns */
    double total;             /* mass on all rows */
    int32_t *touched;         /* (rows): the rows that have mass, as numbers */
    double *cells, *phi_cells, *phi_alike, *values, *added; /* (rows) each */
    double *own_added, *own_phi; /* (columns, rows) each */
    double *other, *other_sum;   /* (columns) each */
} Level;

static int sized(void **place, int64_t count, size_t size)
{
    *place = calloc(count > 0 ? (size_t)count : 1, size);
    return *place == NULL;
}

static void level_free(Level *level)
{
    free(level->base); free(level->change); free(level->alike); free(level->own_ends); free(level->own_column);
    free(level->own_query); free(level->own_change); free(level->slot_rows); free(level->filled_rows); free(level->touched);
    free(level->mass); free(level->cells); free(level->phi_cells); free(level->phi_alike); free(level->values);
    free(level->other_phi); free(level->other); free(level->other_sum); free(level->added); free(level->own_added); free(level->own_phi);
}

/* Fills in what a level's own fields say; the fields from `base` on must be NULL before. */
static int level_prepare(Level *level)
{
    const int64_t rows = level->rows, columns = level->columns;
    int failed = 0;
    level->masks = (rows + 63) / 64;
    failed |= sized((void **)&level->base, columns, sizeof(double));
    failed |= sized((void **)&level->other_phi, columns, sizeof(double));
    failed |= sized((void **)&level->other, columns, sizeof(double));
    failed |= sized((void **)&level->other_sum, columns, sizeof(double));
    failed |= sized((void **)&level->slot_rows, level->slots * level->masks, sizeof(uint64_t));
    failed |= sized((void **)&level->filled_rows, level->masks, sizeof(uint64_t));
    failed |= sized((void **)&level->mass, rows + BLOCK, sizeof(double));
    failed |= sized((void **)&level->own_ends, rows + 1, sizeof(int64_t));
    failed |= sized((void **)&level->own_column, columns * rows, sizeof(int32_t));
    failed |= sized((void **)&level->touched, rows, sizeof(int32_t));
    double **pairs[] = {&level->change, &level->own_query, &level->own_change, &level->own_added, &level->own_phi};
    double **arrays[] = {&level->alike, &level->cells, &level->phi_cells, &level->phi_alike, &level->values,
                         &level->added};
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++)
        failed |= sized((void **)pairs[k], columns * rows, sizeof(double));
    for (size_t k = 0; k < sizeof arrays / sizeof arrays[0]; k++) failed |= sized((void **)arrays[k], rows, sizeof(double));
    if (failed) return OUT_OF_MEMORY;
    for (int64_t slot = 0; slot < level->slots; slot++)
        for (int64_t k = level->lent_ends[slot]; k < level->lent_ends[slot + 1]; k++) {
            const int32_t r = level->lent_rows[k];
            level->slot_rows[slot * level->masks + r / 64] |= UINT64_C(1) << (r % 64);
        }
    for (int64_t r = 0; r < rows; r++) level->alike[r] = phi(2 * level->floor[r]) - phi(level->floor[r]);
    for (int64_t j = 0; j < columns; j++) {
        const double *query = level->query + j * (rows + 1);
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) {
            const double a = query[r], floor = level->floor[r];
            sum += psi(a, floor);
            level->change[j * rows + r] = phi(a + floor) - phi(floor);
        }
        level->base[j] = sum;
        level->other_phi[j] = phi(query[rows]);
    }
    int64_t pairs_count = 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < columns; j++) {
            const double a = level->query[j * (rows + 1) + r];
            if (a == level->floor[r]) continue;
            level->own_column[pairs_count] = (int32_t)j;
            level->own_query[pairs_count] = a;
            level->own_change[pairs_count++] = level->change[j * rows + r] - level->alike[r];
        }
        level->own_ends[r + 1] = pairs_count;
    }
    return GOOD;
}

/* Adds a share of a token's mass to the column. */
static void column_add(Level *level, int64_t slot, double share)
{
    const int64_t masks = level->masks, end = level->lent_ends[slot + 1];
    const uint64_t *restrict slot_rows = level->slot_rows + slot * masks;
    const int32_t *restrict rows = level->lent_rows;
    const double *restrict lent = level->lent;
    uint64_t *restrict filled_rows = level->filled_rows;
    double *restrict mass = level->mass;
    for (int64_t k = 0; k < masks; k++) filled_rows[k] |= slot_rows[k];
    for (int64_t k = level->lent_ends[slot]; k < end; k++) mass[rows[k]] += share * lent[k];
    level->total += share * level->held[slot];
}

/* Turns the mass that was added up into cells, with background, and returns how many there are; empties the column. */
static int64_t column_cells(Level *level)
{
    const double scale = 1 / (1 + level->eta);
    const double *restrict floor = level->floor;
    double *restrict mass = level->mass, *restrict cells = level->cells;
    uint64_t *restrict filled_rows = level->filled_rows;
    int32_t *restrict touched = level->touched;
    int64_t filled = 0;
    for (int64_t k = 0; k < level->masks; k++) {
        uint64_t bits = filled_rows[k];
        filled_rows[k] = 0;
        for (; bits; bits &= bits - 1) {
            const int32_t r = (int32_t)(64 * k + lowest_bit(bits));
            touched[filled] = r;
            cells[filled++] = mass[r] * scale + floor[r];
            mass[r] = 0;
        }
    }
    return filled;
}

/* Four running sums, which don't wait for each other. */
static double summed(const double *values, int64_t count)
{
    double a = 0, b = 0, c = 0, d = 0;
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        a += values[k]; b += values[k + 1]; c += values[k + 2]; d += values[k + 3];
    }
    for (; k < count; k++) a += values[k];
    return (a + b) + (c + d);
}

/* s(j, p) of the column that was added up and every query column (Equation at the head of matching.py); empties the column. */
static void column_similarity(Level *level, double *out)
{
    const int64_t rows = level->rows, filled = column_cells(level);
    double other = level->floor[rows] - level->total / (1 + level->eta);
    if (!(other > 0)) other = 0;
    level->total = 0;
    const int32_t *touched = level->touched;
    phis(level->cells, level->phi_cells, filled);
    /* Query columns that have nothing but background in a row all get the same from it. With several of them it is summed
       once over all rows, and each column adds what its own rows change. */
    if (level->columns > 2) {
        int64_t pairs = 0;
        for (int64_t k = 0; k < filled; k++) level->added[k] = level->floor[touched[k]];
        phis_of_sums(level->added, level->cells, level->phi_alike, filled);
        for (int64_t k = 0; k < filled; k++) {
            const int32_t r = touched[k];
            level->values[k] = level->phi_alike[k] - level->phi_cells[k] - level->alike[r];
            for (int64_t m = level->own_ends[r]; m < level->own_ends[r + 1]; m++)
                level->own_added[pairs++] = level->own_query[m] + level->cells[k];
        }
        const double alike = summed(level->values, filled);
        phis(level->own_added, level->own_phi, pairs);
        for (int64_t j = 0; j < level->columns; j++) out[j] = alike;
        pairs = 0;
        for (int64_t k = 0; k < filled; k++) {
            const int32_t r = touched[k];
            for (int64_t m = level->own_ends[r]; m < level->own_ends[r + 1]; m++)
                out[level->own_column[m]] += level->own_phi[pairs++] - level->phi_alike[k] - level->own_change[m];
        }
    } else {
        for (int64_t j = 0; j < level->columns; j++) {
            const double *query = level->query + j * (rows + 1), *change = level->change + j * rows;
            for (int64_t k = 0; k < filled; k++) level->added[k] = query[touched[k]];
            phis_of_sums(level->added, level->cells, level->own_phi, filled);
            for (int64_t k = 0; k < filled; k++)
                level->values[k] = level->own_phi[k] - level->phi_cells[k] - change[touched[k]];
            out[j] = summed(level->values, filled);
        }
    }
    for (int64_t j = 0; j < level->columns; j++) level->other[j] = level->query[j * (rows + 1) + rows] + other;
    phis(level->other, level->other_sum, level->columns);
    const double other_phi = phi(other);
    for (int64_t j = 0; j < level->columns; j++)
        out[j] = 0.5 * out[j] + level->base[j] + 0.5 * (level->other_sum[j] - level->other_phi[j] - other_phi);
}

#endif
