/* The best window of a text without the exact similarities of most columns. psi is concave in the document's column, so that its
   tangent plane at any column bounds it everywhere: a column's bound is a sum over its tokens, and those of all columns are one
   convolution. The plane touches psi near the mean of the text's columns. Columns whose bound is high enough are estimated in
   single precision, and those are computed whose estimate is high enough. A part of _loops.c. */

#ifndef KERNELSEARCH_BEST_WINDOW_H
#define KERNELSEARCH_BEST_WINDOW_H

#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_columns.h"

enum { BOUNDED_COLUMNS = 16 }; /* longer queries would need large tables for long texts */
/* More than the rounding errors of bounds and estimates; a fifth of it lets hardly fewer columns be computed. */
static const double SLACK = 1e-4;
/* The least mass of all other words where a plane touches psi: slopes stay so small that their rounding errors do. */
static const double LEAST_OTHER = 0.05;

/* How closely a column is known. */
enum { BOUND = 0, ESTIMATE = 1, EXACT = 2 };
enum { WIDTH = 16 }; /* numbers that are worked on together; arrays are filled up to a multiple of it */
/* What a token gives to a row. */
typedef struct { int32_t row; float share; } Given;

typedef struct {
    int64_t cells;       /* rows, filled up with zeros */
    int32_t *blocks;     /* (slots + 1): where a slot's blocks in `given` begin */
    Given *given;        /* what a token of a slot gives to the rows, filled up to whole blocks */
    double *shares;      /* the shares of `given` in double precision */
    float *query;        /* (columns, cells) */
    float *floor, *values; /* (cells) each */
    float *mass;         /* (cells + BLOCK): all 0 between columns */
    float *slope;        /* (cells + BLOCK): of the tangent plane, by row */
    double *query_phi;   /* (columns): phi of the query's cells, summed */
    double window_total; /* the sum of a window's weights */
    int64_t width;       /* of a window, filled up with zeros */
    float *window;       /* (width) */
    /* of one text */
    int32_t *slots;      /* (relevant tokens): the distinct slots */
    float *by_slot;      /* (slots): the mass of each slot's tokens, then what a token of it adds; all 0 between texts */
    float *token;        /* (text + width): what tokens add to the bounds of columns, with zeros around the text */
    float *sums;         /* (text columns) */
    double *windows;     /* (text columns + columns): bounds or similarities of windows by their first column */
    double *similarity;  /* (text columns, columns): bounds or similarities of columns */
    unsigned char *known; /* (text columns): how closely */
} Bounds;

static void bounds_free(Bounds *bounds)
{
    free(bounds->blocks); free(bounds->given); free(bounds->shares); free(bounds->query); free(bounds->floor); free(bounds->mass);
    free(bounds->values); free(bounds->slope); free(bounds->query_phi);
    free(bounds->window); free(bounds->token); free(bounds->sums); free(bounds->windows); free(bounds->similarity);
    free(bounds->known); free(bounds->slots); free(bounds->by_slot);
}

static int64_t filled_up(int64_t count) { return (count + WIDTH - 1) / WIDTH * WIDTH; }

/* Fills in empty Bounds for a level and texts of at most `longest` tokens and `most` columns. */
static int bounds_prepare(
    Bounds *bounds, const Level *level, const double *window, int64_t half, int64_t longest, int64_t most)
{
    const int64_t rows = level->rows, columns = level->columns, slots = level->slots, cells = filled_up(rows);
    int failed = 0;
    bounds->cells = cells;
    bounds->width = filled_up(2 * half + 1);
    failed |= sized((void **)&bounds->blocks, slots + 1, sizeof(int32_t));
    failed |= sized((void **)&bounds->given, level->lent_ends[slots] + slots * (BLOCK - 1), sizeof(Given));
    failed |= sized((void **)&bounds->shares, level->lent_ends[slots] + slots * (BLOCK - 1), sizeof(double));
    failed |= sized((void **)&bounds->query, columns * cells, sizeof(float));
    failed |= sized((void **)&bounds->floor, cells, sizeof(float));
    failed |= sized((void **)&bounds->mass, cells + BLOCK, sizeof(float));
    failed |= sized((void **)&bounds->values, cells, sizeof(float));
    failed |= sized((void **)&bounds->slope, cells + BLOCK, sizeof(float));
    failed |= sized((void **)&bounds->query_phi, columns, sizeof(double));
    failed |= sized((void **)&bounds->window, bounds->width, sizeof(float));
    failed |= sized((void **)&bounds->slots, longest, sizeof(int32_t));
    failed |= sized((void **)&bounds->by_slot, slots, sizeof(float));
    failed |= sized((void **)&bounds->token, longest + half + bounds->width, sizeof(float));
    failed |= sized((void **)&bounds->sums, most, sizeof(float));
    failed |= sized((void **)&bounds->windows, most + columns, sizeof(double));
    failed |= sized((void **)&bounds->similarity, most * columns, sizeof(double));
    failed |= sized((void **)&bounds->known, most, 1);
    if (failed) return OUT_OF_MEMORY;
    for (int64_t slot = 0, next = 0; slot < slots; slot++) {
        for (int64_t k = level->lent_ends[slot]; k < level->lent_ends[slot + 1]; k++) {
            bounds->shares[next] = level->lent[k];
            bounds->given[next++] = (Given){.row = level->lent_rows[k], .share = (float)level->lent[k]};
        }
        for (; next % BLOCK; next++) bounds->given[next].row = (int32_t)(rows + next % BLOCK); /* rows of nothing */
        bounds->blocks[slot + 1] = (int32_t)next;
    }
    for (int64_t k = 0; k <= 2 * half; k++) {
        bounds->window[k] = (float)window[k];
        bounds->window_total += window[k];
    }
    for (int64_t r = 0; r < rows; r++) bounds->floor[r] = (float)level->floor[r];
    for (int64_t j = 0; j < columns; j++)
        for (int64_t r = 0; r <= rows; r++) {
            const double query = level->query[j * (rows + 1) + r];
            if (r < rows) bounds->query[j * cells + r] = (float)query;
            bounds->query_phi[j] += phi(query);
        }
    return GOOD;
}

/* ln x in single precision, with an error below 2e-6; ln FLT_MIN for smaller x. A polynomial that is nearest to ln(1 + f) for a
   mantissa 1 + f between the roots of 1/2 and 2. */
static inline float short_logarithm(float x)
{
    const uint32_t one = UINT32_C(0x3f800000), root_half = UINT32_C(0x3f3504f3);
    uint32_t bits;
    float f, power, series;
    x = x > FLT_MIN ? x : FLT_MIN;
    memcpy(&bits, &x, sizeof bits);
    bits += one - root_half;
    power = (float)((int32_t)(bits >> 23) - 127);
    bits = (bits & UINT32_C(0x007fffff)) + root_half;
    memcpy(&f, &bits, sizeof f);
    f -= 1.0f;
    series = 0.22409762f + f * -0.14246175f;
    series = -0.25523156f + f * series;
    series = 0.33216003f + f * series;
    series = -0.49980140f + f * series;
    series = 1.0000159f + f * series;
    return power * 0.693147181f + (f * series - 1.0065164e-06f);
}

static inline float summed_lanes(float *sums)
{
    for (int lane = 0; lane < WIDTH / 2; lane++) sums[lane] += sums[lane + WIDTH / 2];
    for (int lane = 0; lane < WIDTH / 4; lane++) sums[lane] += sums[lane + WIDTH / 4];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static inline float summed_floats(const float *values, int64_t count)
{
    float sums[WIDTH] = {0};
    for (int64_t k = 0; k < count; k += WIDTH)
        for (int lane = 0; lane < WIDTH; lane++) sums[lane] += values[k + lane];
    return summed_lanes(sums);
}

/* The tangent plane of psi at the column `point`: its slope by row, and the sum over the rows of what doesn't
   depend on the tokens; values (cells) is room. */
VECTORISED static float tangent(
    const float *restrict point, const float *restrict query, const float *restrict floor, float *restrict slope,
    float *restrict values, int64_t cells)
{
    for (int64_t k = 0; k < cells; k++) {
        const float both = short_logarithm(query[k] + point[k]);
        slope[k] = 0.5f * (both - short_logarithm(point[k]));
        values[k] = 0.5f * query[k] * both + slope[k] * floor[k];
    }
    return summed_floats(values, cells);
}

/* The sums of `token` in windows that are `step` apart. */
VECTORISED static void window_sums(
    const float *restrict token, const float *restrict window, int64_t width, int64_t step, int64_t columns,
    float *restrict out)
{
    for (int64_t p = 0; p < columns; p++) {
        float sums[WIDTH] = {0};
        for (int64_t k = 0; k < width; k += WIDTH)
            for (int lane = 0; lane < WIDTH; lane++) sums[lane] += token[p * step + k + lane] * window[k + lane];
        out[p] = summed_lanes(sums);
    }
}

/* A text as the loop below has it: its relevant tokens, the slots and masses of all tokens, and its columns. */
typedef struct {
    const int32_t *slot_of, *relevant, *relevant_before;
    const double *mass, *window, *shares;
    int64_t length, relevant_count, columns, half, step;
} Text;

/* Adds a share of what a token of a slot gives to the mass of the rows. */
static inline void add_given(const Bounds *bounds, int64_t slot, float share)
{
    const Given *restrict given = bounds->given;
    float *restrict mass = bounds->mass;
    const int64_t end = bounds->blocks[slot + 1];
    for (int64_t k = bounds->blocks[slot]; k < end; k += BLOCK)
        for (int place = 0; place < BLOCK; place++) mass[given[k + place].row] += share * given[k + place].share;
}

/* The bounds of all columns of a text. Words repeat, so sums over rows are made once per slot. */
static void column_bounds(Bounds *bounds, const Level *level, const Text *text)
{
    const int64_t columns = level->columns, rows = level->rows, cells = bounds->cells;
    float *point = bounds->mass;
    const Given *restrict given = bounds->given;
    const double scale = 1 / (1 + level->eta);
    /* Any point gives bounds: this is about the mean of the text's columns. */
    double shares = 0;
    for (int64_t p = 0; p < text->columns; p++) shares += text->shares[p];
    const double mean = scale * bounds->window_total * shares / (double)(text->step * text->columns * text->columns);
    int32_t *restrict slots = bounds->slots;
    float *restrict by_slot = bounds->by_slot;
    int64_t distinct = 0;
    double held = 0;
    for (int64_t k = 0; k < text->relevant_count; k++) {
        const int64_t t = text->relevant[k], slot = text->slot_of[t];
        slots[distinct] = (int32_t)slot;
        distinct += by_slot[slot] == 0; /* a slot without mass may be counted twice, which changes nothing */
        by_slot[slot] += (float)(text->mass[t] * mean);
    }
    for (int64_t k = 0; k < distinct; k++) {
        const int64_t slot = slots[k];
        add_given(bounds, slot, by_slot[slot]);
        held += (double)by_slot[slot] * level->held[slot];
    }
    for (int64_t k = 0; k < cells; k++) point[k] += bounds->floor[k];
    const double other = level->floor[rows] - held > LEAST_OTHER ? level->floor[rows] - held : LEAST_OTHER;
    memset(bounds->token + text->half, 0, (size_t)(text->length + bounds->width) * sizeof(float));
    for (int64_t j = 0; j < columns; j++) {
        const double query = level->query[j * (rows + 1) + rows];
        float *restrict slope = bounds->slope;
        const double both = logarithm(query + other), other_slope = 0.5 * (both - logarithm(other));
        double height = (double)tangent(point, bounds->query + j * cells, bounds->floor, slope, bounds->values, cells)
            + 0.5 * query * both - 0.5 * bounds->query_phi[j];
        height += other_slope * level->floor[rows];
        for (int64_t k = 0; k < distinct; k++) {
            const int64_t slot = slots[k], end = bounds->blocks[slot + 1];
            float sum = -(float)(other_slope * level->held[slot]);
            for (int64_t m = bounds->blocks[slot]; m < end; m += BLOCK)
                sum += (given[m].share * slope[given[m].row] + given[m + 1].share * slope[given[m + 1].row])
                    + (given[m + 2].share * slope[given[m + 2].row] + given[m + 3].share * slope[given[m + 3].row]);
            by_slot[slot] = sum;
        }
        for (int64_t k = 0; k < text->relevant_count; k++) {
            const int64_t t = text->relevant[k];
            bounds->token[text->half + t] = (float)text->mass[t] * by_slot[text->slot_of[t]];
        }
        window_sums(bounds->token, bounds->window, bounds->width, text->step, text->columns, bounds->sums);
        for (int64_t p = 0; p < text->columns; p++)
            bounds->similarity[p * columns + j] = height + (double)bounds->sums[p] * (text->shares[p] * scale);
    }
    for (int64_t k = 0; k < distinct; k++) by_slot[slots[k]] = 0;
    memset(point, 0, (size_t)cells * sizeof(float));
}

/* The sum of phi(x + y), or of phi(x) for y NULL, over whole blocks of WIDTH; values (cells) is room. */
VECTORISED static float short_phi_sum(const float *restrict x, const float *restrict y, float *restrict values, int64_t cells)
{
    if (y == NULL)
        for (int64_t k = 0; k < cells; k++) values[k] = x[k] * short_logarithm(x[k]);
    else
        for (int64_t k = 0; k < cells; k++) {
            const float sum = x[k] + y[k];
            values[k] = sum * short_logarithm(sum);
        }
    return summed_floats(values, cells);
}

VECTORISED static void scale_cells(float *restrict mass, const float *restrict floor, float scale, int64_t cells)
{
    for (int64_t k = 0; k < cells; k++) mass[k] = mass[k] * scale + floor[k];
}

typedef struct { int64_t start, end; } Range;

/* The relevant tokens in the window of column p. */
static inline Range column_tokens(const Text *text, int64_t p)
{
    const int64_t low = p * text->step - text->half, high = p * text->step + text->half + 1;
    return (Range){.start = text->relevant_before[low > 0 ? low : 0],
                   .end = text->relevant_before[high < text->length ? high : text->length]};
}

/* As `column_add` of _columns.h, by blocks. */
static inline void add_exactly(const Bounds *bounds, Level *level, int64_t slot, double share)
{
    const Given *restrict given = bounds->given;
    const double *restrict shares = bounds->shares;
    const uint64_t *restrict slot_rows = level->slot_rows + slot * level->masks;
    uint64_t *restrict filled_rows = level->filled_rows;
    double *restrict mass = level->mass;
    const int64_t end = bounds->blocks[slot + 1];
    for (int64_t k = 0; k < level->masks; k++) filled_rows[k] |= slot_rows[k];
    for (int64_t k = bounds->blocks[slot]; k < end; k += BLOCK)
        for (int place = 0; place < BLOCK; place++) mass[given[k + place].row] += share * shares[k + place];
    level->total += share * level->held[slot];
}

static void column_exact(Bounds *bounds, Level *level, const Text *text, int64_t p)
{
    const int64_t middle = p * text->step;
    const Range tokens = column_tokens(text, p);
    for (int64_t k = tokens.start; k < tokens.end; k++) {
        const int64_t t = text->relevant[k];
        add_exactly(bounds, level, text->slot_of[t], text->mass[t] * text->window[t - middle + text->half] * text->shares[p]);
    }
    column_similarity(level, bounds->similarity + p * level->columns);
}

/* The similarities of column p from all rows in single precision. */
static void column_estimate(Bounds *bounds, Level *level, const Text *text, int64_t p)
{
    const int64_t columns = level->columns, rows = level->rows, cells = bounds->cells, middle = p * text->step;
    const double scale = text->shares[p] / (1 + level->eta);
    float *mass = bounds->mass;
    double held = 0, *out = bounds->similarity + p * columns;
    const Range tokens = column_tokens(text, p);
    for (int64_t k = tokens.start; k < tokens.end; k++) {
        const int64_t t = text->relevant[k], slot = text->slot_of[t];
        const double share = text->mass[t] * text->window[t - middle + text->half];
        add_given(bounds, slot, (float)share);
        held += share * level->held[slot];
    }
    double other = level->floor[rows] - held * scale;
    if (!(other > 0)) other = 0;
    scale_cells(mass, bounds->floor, (float)scale, cells);
    const double own = (double)short_phi_sum(mass, NULL, bounds->values, cells) + phi(other);
    for (int64_t j = 0; j < columns; j++) {
        const double both = (double)short_phi_sum(mass, bounds->query + j * cells, bounds->values, cells)
            + phi(level->query[j * (rows + 1) + rows] + other);
        out[j] = 0.5 * (both - own - bounds->query_phi[j]);
    }
    memset(mass, 0, (size_t)cells * sizeof(float));
}

/* The weighted sum of what is known of the columns of the window that begins at column `start`. */
static double known_similarity(
    const Bounds *bounds, const Level *level, const Text *text, const double *weights, const double *empty, int64_t start)
{
    const int64_t columns = level->columns;
    double value = 0;
    for (int64_t j = 0; j < columns; j++)
        value += weights[j] * (start + j < text->columns ? bounds->similarity[(start + j) * columns + j] : empty[j]);
    return value;
}

/* The similarity of the window that begins at column `start` from columns known at least as closely as `wanted`, or a bound of it
   below `enough`. */
static double window_similarity(
    Bounds *bounds, Level *level, const Text *text, const double *weights, const double *empty, int64_t start, int wanted,
    double enough)
{
    double value = known_similarity(bounds, level, text, weights, empty, start);
    for (int64_t p = start; p < start + level->columns && p < text->columns && value + SLACK >= enough; p++) {
        if (bounds->known[p] >= wanted) continue;
        (wanted == EXACT ? column_exact : column_estimate)(bounds, level, text, p);
        bounds->known[p] = (unsigned char)wanted;
        value = known_similarity(bounds, level, text, weights, empty, start);
    }
    return value;
}

/* The similarity of a text's best window. The window with the highest bound is computed, those are estimated whose bound isn't
   below the best so far, and those computed whose estimate isn't. */
static double best_window(Bounds *bounds, Level *level, const Text *text, const double *weights, const double *empty)
{
    const int64_t columns = level->columns;
    const int64_t windows = text->columns > columns ? text->columns - columns + 1 : 1;
    int64_t first = 0;
    if (text->columns > 0) column_bounds(bounds, level, text);
    for (int64_t p = 0; p < text->columns; p++) {
        const Range tokens = column_tokens(text, p);
        bounds->known[p] = BOUND;
        if (tokens.start == tokens.end) {
            bounds->known[p] = EXACT;
            memcpy(bounds->similarity + p * columns, empty, (size_t)columns * sizeof(double));
        }
    }
    for (int64_t start = 0; start < windows; start++) {
        bounds->windows[start] = known_similarity(bounds, level, text, weights, empty, start);
        if (bounds->windows[start] > bounds->windows[first]) first = start;
    }
    double best = window_similarity(bounds, level, text, weights, empty, first, EXACT, -DBL_MAX), highest = best;
    for (int64_t start = 0; start < windows; start++) {
        if (start == first || bounds->windows[start] + SLACK < highest) continue;
        bounds->windows[start] = window_similarity(bounds, level, text, weights, empty, start, ESTIMATE, highest);
        if (bounds->windows[start] > highest) highest = bounds->windows[start];
    }
    for (int64_t start = 0; start < windows; start++) {
        if (start == first || bounds->windows[start] + SLACK < highest) continue;
        const double value = window_similarity(bounds, level, text, weights, empty, start, EXACT, -DBL_MAX);
        if (value > best) best = value;
    }
    return best;
}

#endif
