/* The inner loops of query processing that numpy can't express without large temporary arrays.

   Plain C99 without Python's headers: kernelsearch/core/compiled.py loads the shared library through ctypes, which releases
   the GIL during a call. Every function returns a status code of _loops.h. Callers check types, shapes and
   contiguity; numbers that come from files (words, text bounds, postings) are checked here, where they are used.

   Results don't depend on the processor: multiplications and additions are not contracted (-ffp-contract=off) and sums are
   added in the order that is written here, whatever the width of the vector registers. */

#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_loops.h"

enum { JENSEN_SHANNON = 0, KULLBACK_LEIBLER = 1 };
enum { MODE_MAX = 0, MODE_MEAN = 1, MODE_SUM = 2 };

/* Raised with every change of a function's arguments or meaning; compiled.py compares it. */
int kernelsearch_version(void) { return 5; }

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

VECTORISED static void logarithms(const double *restrict x, double *restrict out, int64_t count)
{
    for (int64_t k = 0; k < count; k++) out[k] = logarithm(at_least_tiny(x[k]));
}

/* A cell's part of the similarity, psi of kernels/pyramid/matching.py. */
static double psi(double a, double b, int divergence)
{
    if (divergence == JENSEN_SHANNON) return 0.5 * (phi(a + b) - phi(a) - phi(b));
    return a * (logarithm(at_least_tiny(b)) - logarithm(at_least_tiny(a)));
}

/* Document columns that are added up together, a power of 2. A token lies in the windows of a few columns, by default five. */
enum { LANES = 8 };

/* What a query needs at one level, and room for document columns. */
typedef struct {
    int64_t rows, columns, slots;
    const double *query;      /* (columns, rows + 1): distributions; the last cell is all other words */
    const double *floor;      /* (rows + 1): a document column of nothing but background */
    double eta;
    int divergence;
    const int64_t *lent_ends; /* (slots + 1): what a token of a slot gives to the rows */
    const int32_t *lent_rows;
    const double *lent;
    const double *held;       /* (slots): the sum of what a token of a slot gives */
    int64_t masks;            /* words of 64 bits, one bit per row */
    uint64_t *slot_rows;      /* (slots, masks): the rows that a token of a slot gives to */
    double *other_phi;        /* (columns): phi of the query's mass on all other words */
    double *base;             /* (columns): similarity of a column of nothing but background, without the other words */
    double *change;           /* (columns, rows): what a filled cell's phi(a + floor) - phi(floor) was; ln floor for KL */
    double *alike;            /* (rows): phi(2 floor) - phi(floor) */
    int64_t *own_ends;        /* (rows + 1): the query columns that have more than background in a row, */
    int32_t *own_column;      /* their numbers, */
    double *own_query;        /* their cells in the row, */
    double *own_change;       /* and what these change of phi(2 floor) - phi(floor) */
    /* document columns that are being added up; column p is in lane p mod LANES */
    uint64_t *filled_rows;    /* (LANES, masks): the rows that have mass; all 0 between documents */
    double *mass;             /* (rows, LANES): all 0 between documents */
    double total[LANES];      /* mass on all rows */
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
    failed |= sized((void **)&level->filled_rows, LANES * level->masks, sizeof(uint64_t));
    failed |= sized((void **)&level->mass, LANES * rows, sizeof(double));
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
            sum += psi(a, floor, level->divergence);
            level->change[j * rows + r] =
                level->divergence == JENSEN_SHANNON ? phi(a + floor) - phi(floor) : logarithm(at_least_tiny(floor));
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

/* Adds shares of a token's mass to the columns of all lanes. */
VECTORISED static void add_to_lanes(
    double *restrict mass, const int32_t *restrict rows, const double *restrict lent, int64_t count,
    const double *restrict shares)
{
    for (int64_t k = 0; k < count; k++) {
        double *restrict cell = mass + (int64_t)LANES * rows[k];
        for (int lane = 0; lane < LANES; lane++) cell[lane] += shares[lane] * lent[k];
    }
}

static void token_add(Level *level, int64_t slot, const double *shares, int64_t first, int64_t last)
{
    const int64_t masks = level->masks, start = level->lent_ends[slot];
    const uint64_t *restrict slot_rows = level->slot_rows + slot * masks;
    add_to_lanes(level->mass, level->lent_rows + start, level->lent + start, level->lent_ends[slot + 1] - start, shares);
    for (int64_t p = first; p <= last; p++) {
        const int64_t lane = p & (LANES - 1);
        uint64_t *restrict filled_rows = level->filled_rows + lane * masks;
        for (int64_t k = 0; k < masks; k++) filled_rows[k] |= slot_rows[k];
        level->total[lane] += shares[lane] * level->held[slot];
    }
}

/* Adds a share of a token's mass to the column of one lane. */
static void column_add(Level *level, int64_t slot, double share, int64_t lane)
{
    const int64_t masks = level->masks, end = level->lent_ends[slot + 1];
    const uint64_t *restrict slot_rows = level->slot_rows + slot * masks;
    const int32_t *restrict rows = level->lent_rows;
    const double *restrict lent = level->lent;
    uint64_t *restrict filled_rows = level->filled_rows + lane * masks;
    double *restrict mass = level->mass + lane;
    for (int64_t k = 0; k < masks; k++) filled_rows[k] |= slot_rows[k];
    for (int64_t k = level->lent_ends[slot]; k < end; k++) mass[(int64_t)LANES * rows[k]] += share * lent[k];
    level->total[lane] += share * level->held[slot];
}

/* Turns the mass that was added up into cells, with background, and returns how many there are; empties the column. */
static int64_t column_cells(Level *level, int64_t lane)
{
    const double scale = 1 / (1 + level->eta);
    const double *restrict floor = level->floor;
    double *restrict mass = level->mass + lane, *restrict cells = level->cells;
    uint64_t *restrict filled_rows = level->filled_rows + lane * level->masks;
    int32_t *restrict touched = level->touched;
    int64_t filled = 0;
    for (int64_t k = 0; k < level->masks; k++) {
        uint64_t bits = filled_rows[k];
        filled_rows[k] = 0;
        for (; bits; bits &= bits - 1) {
            const int32_t r = (int32_t)(64 * k + lowest_bit(bits));
            touched[filled] = r;
            cells[filled++] = mass[LANES * (int64_t)r] * scale + floor[r];
            mass[LANES * (int64_t)r] = 0;
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

/* As `summed`, of products. */
static double inner_product(const double *a, const double *b, int64_t count)
{
    double sums[4] = {0};
    int64_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (int lane = 0; lane < 4; lane++) sums[lane] += a[k + lane] * b[k + lane];
    for (; k < count; k++) sums[0] += a[k] * b[k];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* s(j, p) of the column that was added up and every query column (Equation at the head of matching.py); empties the column. */
static void column_similarity(Level *level, int64_t lane, double *out)
{
    const int64_t rows = level->rows, filled = column_cells(level, lane);
    double other = level->floor[rows] - level->total[lane] / (1 + level->eta);
    if (!(other > 0)) other = 0;
    level->total[lane] = 0;
    const int32_t *touched = level->touched;
    if (level->divergence == KULLBACK_LEIBLER) {
        logarithms(level->cells, level->phi_cells, filled);
        for (int64_t j = 0; j < level->columns; j++) {
            const double *query = level->query + j * (rows + 1), *floor = level->change + j * rows;
            for (int64_t k = 0; k < filled; k++)
                level->values[k] = query[touched[k]] * (level->phi_cells[k] - floor[touched[k]]);
            out[j] = summed(level->values, filled) + level->base[j] + psi(query[rows], other, KULLBACK_LEIBLER);
        }
    } else {
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
}

/* Upper bounds of the similarities of a text's columns. psi is homogeneous and concave, so adding up cells of both sides can't
   lower the sum of psi: the similarity of coarse columns bounds that of the columns. Where only the best window counts, most
   columns are then never computed. A coarse column has the query's largest rows, runs of the other rows (rows of neighbouring
   words are contiguous), and all other words. It is computed in single precision, which moves a bound by less than SLACK. */
enum { COARSE_ROWS = 15, COARSE_RUNS = 48, CELLS = COARSE_ROWS + COARSE_RUNS + 1 };
/* Longer queries would need large tables of bounds for long texts. */
enum { BOUNDED_COLUMNS = 16 };
/* More than the rounding errors of a bound; ten times as much lets hardly more columns be computed. */
static const double SLACK = 1e-4;

typedef struct {
    float *lent;         /* (slots, CELLS): what a token of a slot gives to the cells */
    float *query;        /* (columns, CELLS) */
    float floor[CELLS];
    double *base;        /* (columns): what the query's side alone adds to the similarity */
    /* of one text */
    double *bounds;      /* (text columns, columns) */
    double *windows;     /* (text columns + columns): bounds of windows by their first column */
    double *similarity;  /* (text columns, columns), of the columns that were computed */
    unsigned char *computed; /* (text columns) */
    int32_t *begin;      /* (text columns): a column's first relevant token */
} Coarse;

static void coarse_free(Coarse *coarse)
{
    free(coarse->lent); free(coarse->query); free(coarse->base); free(coarse->bounds); free(coarse->windows);
    free(coarse->similarity); free(coarse->computed); free(coarse->begin);
}

/* Fills in an empty Coarse for a level and texts of at most so many columns. */
static int coarse_prepare(Coarse *coarse, const Level *level, int64_t longest)
{
    const int64_t rows = level->rows, columns = level->columns, slots = level->slots;
    int32_t *cell_of = NULL;
    double *mass = NULL;
    int failed = 0;
    failed |= sized((void **)&cell_of, rows, sizeof(int32_t));
    failed |= sized((void **)&mass, rows, sizeof(double));
    failed |= sized((void **)&coarse->lent, slots * CELLS, sizeof(float));
    failed |= sized((void **)&coarse->base, columns, sizeof(double));
    failed |= sized((void **)&coarse->query, columns * CELLS, sizeof(float));
    failed |= sized((void **)&coarse->bounds, longest * columns, sizeof(double));
    failed |= sized((void **)&coarse->similarity, longest * columns, sizeof(double));
    failed |= sized((void **)&coarse->windows, longest + columns, sizeof(double));
    failed |= sized((void **)&coarse->computed, longest, 1);
    failed |= sized((void **)&coarse->begin, longest, sizeof(int32_t));
    if (failed) {
        free(cell_of); free(mass);
        return OUT_OF_MEMORY;
    }
    for (int64_t r = 0; r < rows; r++) {
        cell_of[r] = (int32_t)(COARSE_ROWS + r * COARSE_RUNS / rows);
        for (int64_t j = 0; j < columns; j++) mass[r] += level->query[j * (rows + 1) + r];
    }
    for (int k = 0; k < COARSE_ROWS && k < rows; k++) {
        int64_t best = 0;
        for (int64_t r = 1; r < rows; r++)
            if (mass[r] > mass[best]) best = r;
        cell_of[best] = k;
        mass[best] = -1;
    }
    for (int64_t r = 0; r <= rows; r++) {
        const int64_t cell = r < rows ? cell_of[r] : CELLS - 1;
        coarse->floor[cell] += (float)level->floor[r];
        for (int64_t j = 0; j < columns; j++) coarse->query[j * CELLS + cell] += (float)level->query[j * (rows + 1) + r];
    }
    for (int64_t j = 0; j < columns; j++)
        for (int64_t k = 0; k < CELLS; k++) {
            const double part = phi((double)coarse->query[j * CELLS + k]);
            coarse->base[j] += level->divergence == JENSEN_SHANNON ? 0.5 * part : part;
        }
    for (int64_t slot = 0; slot < slots; slot++) {
        float *lent = coarse->lent + slot * CELLS;
        for (int64_t k = level->lent_ends[slot]; k < level->lent_ends[slot + 1]; k++)
            lent[cell_of[level->lent_rows[k]]] += (float)level->lent[k];
        lent[CELLS - 1] = -(float)level->held[slot]; /* what the rows get, all other words lose */
    }
    free(cell_of); free(mass);
    return GOOD;
}

/* ln x as `logarithm`, in single precision; ln FLT_MIN for smaller x. */
static inline float short_logarithm(float x)
{
    const uint32_t one = UINT32_C(0x3f800000), root_half = UINT32_C(0x3f3504f3);
    uint32_t bits;
    float mantissa, power, s, z;
    x = x > FLT_MIN ? x : FLT_MIN;
    memcpy(&bits, &x, sizeof bits);
    bits += one - root_half;
    power = (float)((int32_t)(bits >> 23) - 127);
    bits = (bits & UINT32_C(0x007fffff)) + root_half;
    memcpy(&mantissa, &bits, sizeof mantissa);
    s = (mantissa - 1.0f) / (mantissa + 1.0f);
    z = s * s;
    return power * 0.693147181f + s * (2.0f + z * (0.666666667f + z * (0.4f + z * 0.285714286f)));
}

/* The sum of CELLS values. */
static inline double summed_cells(const float *values)
{
    float sums[16] = {0};
    for (int k = 0; k < CELLS; k += 16)
        for (int lane = 0; lane < 16; lane++) sums[lane] += values[k + lane];
    for (int lane = 0; lane < 8; lane++) sums[lane] += sums[lane + 8];
    for (int lane = 0; lane < 4; lane++) sums[lane] += sums[lane + 4];
    return (double)((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* A text as the loop below has it: its relevant tokens, the slots and masses of all tokens, and its columns. */
typedef struct {
    const int32_t *slot_of, *relevant;
    const double *mass, *window, *shares;
    int64_t relevant_count, columns, half, step;
} Text;

/* The bounds of column p. */
VECTORISED static void coarse_bounds(
    const Coarse *restrict coarse, const Level *restrict level, const Text *restrict text, int64_t p)
{
    const int64_t columns = level->columns, offset = text->half - p * text->step;
    const float scale = (float)(text->shares[p] / (1 + level->eta));
    float mass[CELLS] = {0}, parts[CELLS];
    /* The end depends on the data: with a known number of tokens gcc joins two of them, and the inner loop becomes scalar. */
    for (int64_t k = coarse->begin[p]; k < text->relevant_count && text->relevant[k] <= p * text->step + text->half; k++) {
        const int64_t t = text->relevant[k];
        const float share = (float)(text->mass[t] * text->window[t + offset]);
        const float *restrict given = coarse->lent + (int64_t)text->slot_of[t] * CELLS;
        for (int cell = 0; cell < CELLS; cell++) mass[cell] += share * given[cell];
    }
    for (int cell = 0; cell < CELLS; cell++) mass[cell] = mass[cell] * scale + coarse->floor[cell];
    /* A difference, which may have lost all its digits; more of it can only raise the bound. */
    mass[CELLS - 1] = (mass[CELLS - 1] > 0 ? mass[CELLS - 1] : 0) + (float)SLACK;
    if (level->divergence == KULLBACK_LEIBLER) {
        float logs[CELLS];
        for (int cell = 0; cell < CELLS; cell++) logs[cell] = short_logarithm(mass[cell]);
        for (int64_t j = 0; j < columns; j++) {
            const float *restrict query = coarse->query + j * CELLS;
            for (int cell = 0; cell < CELLS; cell++) parts[cell] = query[cell] * logs[cell];
            coarse->bounds[p * columns + j] = summed_cells(parts) - coarse->base[j];
        }
        return;
    }
    float phi_mass[CELLS];
    for (int cell = 0; cell < CELLS; cell++) phi_mass[cell] = mass[cell] * short_logarithm(mass[cell]);
    for (int64_t j = 0; j < columns; j++) {
        const float *restrict query = coarse->query + j * CELLS;
        for (int cell = 0; cell < CELLS; cell++) {
            const float sum = query[cell] + mass[cell];
            parts[cell] = sum * short_logarithm(sum) - phi_mass[cell];
        }
        coarse->bounds[p * columns + j] = 0.5 * summed_cells(parts) - coarse->base[j];
    }
}

/* The similarity of the window that begins at column `start`; computes the columns that have not been computed. */
static double window_similarity(
    Level *level, Coarse *coarse, const Text *text, const double *weights, const double *empty, int64_t start)
{
    const int64_t columns = level->columns;
    double value = 0;
    for (int64_t j = 0; j < columns; j++) {
        const int64_t p = start + j, middle = p * text->step;
        double *s = coarse->similarity + p * columns;
        if (p < text->columns && !coarse->computed[p]) {
            for (int64_t k = coarse->begin[p]; k < text->relevant_count && text->relevant[k] <= middle + text->half; k++) {
                const int64_t t = text->relevant[k];
                column_add(level, text->slot_of[t], text->mass[t] * text->window[t - middle + text->half] * text->shares[p], 0);
            }
            column_similarity(level, 0, s);
            coarse->computed[p] = 1;
        }
        value += weights[j] * (p < text->columns ? s[j] : empty[j]);
    }
    return value;
}

/* The similarity of a text's best window. Windows are computed whose bound isn't below the best so far. */
static double best_window(Level *level, Coarse *coarse, const Text *text, const double *weights, const double *empty)
{
    const int64_t columns = level->columns;
    const int64_t windows = text->columns > columns ? text->columns - columns + 1 : 1;
    int64_t first = 0, begin = 0;
    for (int64_t p = 0; p < text->columns; p++) {
        const int64_t low = p * text->step - text->half, high = p * text->step + text->half;
        while (begin < text->relevant_count && text->relevant[begin] < low) begin++;
        coarse->begin[p] = (int32_t)begin;
        coarse->computed[p] = begin == text->relevant_count || text->relevant[begin] > high;
        if (coarse->computed[p]) {
            memcpy(coarse->similarity + p * columns, empty, (size_t)columns * sizeof(double));
            memcpy(coarse->bounds + p * columns, empty, (size_t)columns * sizeof(double));
        } else {
            coarse_bounds(coarse, level, text, p);
        }
    }
    for (int64_t start = 0; start < windows; start++) {
        double bound = 0;
        for (int64_t j = 0; j < columns; j++)
            bound += weights[j] * (start + j < text->columns ? coarse->bounds[(start + j) * columns + j] : empty[j]);
        coarse->windows[start] = bound;
        if (bound > coarse->windows[first]) first = start;
    }
    double best = window_similarity(level, coarse, text, weights, empty, first);
    for (int64_t start = 0; start < windows; start++) {
        if (start == first || coarse->windows[start] + SLACK < best) continue;
        const double value = window_similarity(level, coarse, text, weights, empty, start);
        if (value > best) best = value;
    }
    return best;
}

/* One similarity per document at one level from windows as long as the query that slide over its columns.

   words (size): texts one after another; document d is words[starts[d] .. ends[d]-1]. slots (vocabulary): the slot of each
   word; the last slot gives nothing to any row. importance (vocabulary) or NULL: mass of a token. window (2 half + 1): weights
   around a column's position; columns are `step` apart. step 0: one column, the whole text. half 0: a column is a token.
   weights (columns): weights of the query's columns. out (documents). */
int kernelsearch_match_level(
    const int32_t *words, int64_t size, const int64_t *starts, const int64_t *ends, int64_t documents,
    const int32_t *slots, int64_t vocabulary, const double *importance,
    const int64_t *lent_ends, const int32_t *lent_rows, const double *lent, const double *held, int64_t slot_count,
    const double *window, int64_t half, int64_t step,
    const double *query, const double *weights, int64_t columns, int64_t rows, const double *floor, double eta,
    int divergence, int mode, double *out)
{
    const int64_t irrelevant = slot_count - 1;
    int64_t longest = 0;
    int status = GOOD;
    for (int64_t d = 0; d < documents; d++) {
        if (starts[d] < 0 || ends[d] < starts[d] || ends[d] > size) return OUT_OF_RANGE;
        if (ends[d] - starts[d] > longest) longest = ends[d] - starts[d];
    }
    Level level = {.rows = rows, .columns = columns, .slots = slot_count, .query = query, .floor = floor, .eta = eta,
                   .divergence = divergence, .lent_ends = lent_ends, .lent_rows = lent_rows, .lent = lent, .held = held,
                   .total = {0}};
    int32_t *slot_of = NULL, *relevant = NULL;
    double *mass = NULL, *similarity = NULL, *empty = NULL, *running = NULL, *known = NULL, *shares = NULL;
    unsigned char *computed = NULL;
    const int by_token = half == 0 && step > 0, windowed = half > 0 && step > 0;
    const int together = windowed && 2 * half / step + 1 <= LANES;
    const int bounded = windowed && mode == MODE_MAX && columns <= BOUNDED_COLUMNS;
    Coarse coarse = {0};
    int failed = level_prepare(&level) != GOOD;
    if (bounded && !failed) failed |= coarse_prepare(&coarse, &level, longest / step + 1) != GOOD;
    failed |= sized((void **)&slot_of, longest, sizeof(int32_t));
    failed |= sized((void **)&relevant, longest, sizeof(int32_t));
    failed |= sized((void **)&mass, longest, sizeof(double));
    failed |= sized((void **)&similarity, columns, sizeof(double));
    failed |= sized((void **)&empty, columns, sizeof(double));
    failed |= sized((void **)&running, columns, sizeof(double));
    if (windowed) failed |= sized((void **)&shares, longest / step + 1, sizeof(double));
    if (by_token) {
        failed |= sized((void **)&known, slot_count * columns, sizeof(double));
        failed |= sized((void **)&computed, slot_count, 1);
    }
    if (failed) {
        status = OUT_OF_MEMORY;
        goto end;
    }
    column_similarity(&level, 0, empty);
    for (int64_t d = 0; d < documents; d++) {
        const int32_t *text = words + starts[d];
        const int64_t length = ends[d] - starts[d];
        int64_t relevant_count = 0, next = 0;
        /* Counted on instead of divided for: the columns whose windows the last token lies in, and p mod `columns`. */
        int64_t from = 0, last = 0, turn = 0;
        for (int64_t t = 0; t < length; t++) {
            const int32_t word = text[t];
            if (word < 0 || word >= vocabulary) { status = OUT_OF_RANGE; goto end; }
            const int32_t slot = slots[word];
            if (slot < 0 || slot > irrelevant) { status = OUT_OF_RANGE; goto end; }
            slot_of[t] = slot;
            mass[t] = importance == NULL ? 1.0 : importance[word];
            relevant[relevant_count] = (int32_t)t;
            relevant_count += slot != irrelevant;
        }
        const int64_t filled = step == 0 ? (length > 0) : (length + step - 1) / step;
        const int64_t count = filled > columns ? filled : columns;
        double best = 0, sum = 0;
        for (int64_t p = 0; p < filled && windowed; p++) {
            const int64_t low = p * step > half ? p * step - half : 0;
            const int64_t high = p * step + half < length ? p * step + half + 1 : length;
            shares[p] = 1.0 / inner_product(mass + low, window + (low - p * step + half), high - low);
        }
        if (bounded) {
            const Text tokens = {.slot_of = slot_of, .relevant = relevant, .mass = mass, .window = window, .shares = shares,
                                 .relevant_count = relevant_count, .columns = filled, .half = half, .step = step};
            out[d] = best_window(&level, &coarse, &tokens, weights, empty);
            continue;
        }
        for (int64_t j = 0; j < columns; j++) running[j] = 0;
        for (int64_t p = 0; p < count; p++) {
            const double *s = similarity;
            if (p >= filled) {
                s = empty;
            } else if (step == 0) {
                double whole = 0;
                for (int64_t t = 0; t < length; t++) whole += mass[t];
                for (int64_t k = 0; k < relevant_count; k++)
                    column_add(&level, slot_of[relevant[k]], mass[relevant[k]] / whole, 0);
                column_similarity(&level, 0, similarity);
            } else if (by_token) {
                const int32_t slot = slot_of[p * step];
                double *table = known + slot * columns;
                if (!computed[slot]) {
                    column_add(&level, slot, 1.0, 0);
                    column_similarity(&level, 0, table);
                    computed[slot] = 1;
                }
                s = table;
            } else {
                const int64_t high = p * step + half;
                if (together) {
                    while (next < relevant_count && relevant[next] <= high) {
                        const int64_t t = relevant[next++];
                        double token_shares[LANES] = {0};
                        while (from * step < t - half) from++;
                        while (last + 1 < filled && (last + 1) * step <= t + half) last++;
                        for (int64_t q = from; q <= last; q++)
                            token_shares[q & (LANES - 1)] = mass[t] * window[t - q * step + half] * shares[q];
                        token_add(&level, slot_of[t], token_shares, from, last);
                    }
                } else {
                    const int64_t low = p * step - half;
                    while (next < relevant_count && relevant[next] < low) next++;
                    for (int64_t k = next; k < relevant_count && relevant[k] <= high; k++) {
                        const int64_t t = relevant[k];
                        column_add(&level, slot_of[t], mass[t] * window[t - p * step + half] * shares[p], p % LANES);
                    }
                }
                column_similarity(&level, p % LANES, similarity);
            }
            /* running[first column of a window mod columns]: the windows that the columns so far lie in */
            for (int64_t j = 0; j < columns && j <= p; j++)
                running[j <= turn ? turn - j : turn - j + columns] += weights[j] * s[j];
            const int64_t start = p - columns + 1, oldest = turn + 1 < columns ? turn + 1 : 0;
            if (start >= 0) {
                const double value = running[oldest];
                running[oldest] = 0;
                if (start == 0 || value > best) best = value;
                sum += value;
            }
            turn = oldest;
        }
        out[d] = mode == MODE_MAX ? best : mode == MODE_SUM ? sum : sum / (double)(count - columns + 1);
    }
end:
    level_free(&level);
    coarse_free(&coarse);
    free(slot_of); free(relevant); free(mass); free(similarity); free(empty); free(running); free(known); free(computed);
    free(shares);
    return status;
}
