/* The inner loops of query processing that numpy can't express without large temporary arrays.

   Plain C99 without Python's headers: kernelsearch/core/compiled.py loads the shared library through ctypes, which releases
   the GIL during a call. Every function returns a status code of _loops.h. Callers check types, shapes and
   contiguity; numbers that come from files (words, text bounds, postings) are checked here, where they are used.

   Results don't depend on the processor: multiplications and additions are not contracted (-ffp-contract=off) and sums are
   added in the order that is written here, whatever the width of the vector registers. */

#include <stdint.h>
#include <stdlib.h>

#include "_best_window.h"
#include "_columns.h"
#include "_loops.h"

/* Raised with every change of a function's arguments or meaning; compiled.py compares it. */
int kernelsearch_version(void) { return 7; }

/* As `summed` of _columns.h, of products. */
static double inner_product(const double *a, const double *b, int64_t count)
{
    double sums[4] = {0};
    int64_t k = 0;
    for (; k + 4 <= count; k += 4)
        for (int lane = 0; lane < 4; lane++) sums[lane] += a[k + lane] * b[k + lane];
    for (; k < count; k++) sums[0] += a[k] * b[k];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* The similarity of each document's best window at one level; windows as long as the query slide over its columns.

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
    double *out)
{
    const int64_t irrelevant = slot_count - 1;
    int64_t longest = 0;
    int status = GOOD;
    for (int64_t d = 0; d < documents; d++) {
        if (starts[d] < 0 || ends[d] < starts[d] || ends[d] > size) return OUT_OF_RANGE;
        if (ends[d] - starts[d] > longest) longest = ends[d] - starts[d];
    }
    Level level = {.rows = rows, .columns = columns, .slots = slot_count, .query = query, .floor = floor, .eta = eta,
                   .lent_ends = lent_ends, .lent_rows = lent_rows, .lent = lent, .held = held};
    int32_t *slot_of = NULL, *relevant = NULL, *relevant_before = NULL;
    double *mass = NULL, *similarity = NULL, *empty = NULL, *running = NULL, *known = NULL, *shares = NULL;
    unsigned char *computed = NULL;
    const int by_token = half == 0 && step > 0, windowed = half > 0 && step > 0;
    const int bounded = windowed && columns <= BOUNDED_COLUMNS;
    Bounds bounds = {0};
    int failed = level_prepare(&level) != GOOD;
    if (bounded && !failed) failed |= bounds_prepare(&bounds, &level, window, half, longest, longest / step + 1) != GOOD;
    failed |= sized((void **)&slot_of, longest, sizeof(int32_t));
    failed |= sized((void **)&relevant, longest, sizeof(int32_t));
    failed |= sized((void **)&relevant_before, longest + 1, sizeof(int32_t));
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
    column_similarity(&level, empty);
    for (int64_t d = 0; d < documents; d++) {
        const int32_t *text = words + starts[d];
        const int64_t length = ends[d] - starts[d];
        int64_t relevant_count = 0, next = 0;
        if (d + 1 < documents) prefetch(words + starts[d + 1], (ends[d + 1] - starts[d + 1]) * (int64_t)sizeof *words);
        int64_t turn = 0; /* p mod `columns`, counted on instead of divided for */
        for (int64_t t = 0; t < length; t++) {
            const int32_t word = text[t];
            if (word < 0 || word >= vocabulary) { status = OUT_OF_RANGE; goto end; }
            const int32_t slot = slots[word];
            if (slot < 0 || slot > irrelevant) { status = OUT_OF_RANGE; goto end; }
            slot_of[t] = slot;
            mass[t] = importance == NULL ? 1.0 : importance[word];
            relevant[relevant_count] = (int32_t)t;
            relevant_before[t] = (int32_t)relevant_count;
            relevant_count += slot != irrelevant;
        }
        relevant_before[length] = (int32_t)relevant_count;
        const int64_t filled = step == 0 ? (length > 0) : (length + step - 1) / step;
        const int64_t count = filled > columns ? filled : columns;
        double best = 0;
        for (int64_t p = 0; p < filled && windowed; p++) {
            const int64_t low = p * step > half ? p * step - half : 0;
            const int64_t high = p * step + half < length ? p * step + half + 1 : length;
            shares[p] = 1.0 / inner_product(mass + low, window + (low - p * step + half), high - low);
        }
        if (bounded) {
            const Text tokens = {.slot_of = slot_of, .relevant = relevant, .relevant_before = relevant_before, .mass = mass,
                                 .window = window, .shares = shares, .length = length, .relevant_count = relevant_count,
                                 .columns = filled, .half = half, .step = step};
            out[d] = best_window(&bounds, &level, &tokens, weights, empty);
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
                    column_add(&level, slot_of[relevant[k]], mass[relevant[k]] / whole);
                column_similarity(&level, similarity);
            } else if (by_token) {
                const int32_t slot = slot_of[p * step];
                double *table = known + slot * columns;
                if (!computed[slot]) {
                    column_add(&level, slot, 1.0);
                    column_similarity(&level, table);
                    computed[slot] = 1;
                }
                s = table;
            } else {
                const int64_t high = p * step + half;
                const int64_t low = p * step - half;
                while (next < relevant_count && relevant[next] < low) next++;
                for (int64_t k = next; k < relevant_count && relevant[k] <= high; k++) {
                    const int64_t t = relevant[k];
                    column_add(&level, slot_of[t], mass[t] * window[t - p * step + half] * shares[p]);
                }
                column_similarity(&level, similarity);
            }
            /* running[first column of a window mod columns]: the windows that the columns so far lie in */
            for (int64_t j = 0; j < columns && j <= p; j++)
                running[j <= turn ? turn - j : turn - j + columns] += weights[j] * s[j];
            const int64_t start = p - columns + 1, oldest = turn + 1 < columns ? turn + 1 : 0;
            if (start >= 0) {
                const double value = running[oldest];
                running[oldest] = 0;
                if (start == 0 || value > best) best = value;
            }
            turn = oldest;
        }
        out[d] = best;
    }
end:
    level_free(&level);
    bounds_free(&bounds);
    free(slot_of); free(relevant); free(relevant_before); free(mass); free(similarity); free(empty); free(running); free(known);
    free(computed); free(shares);
    return status;
}
