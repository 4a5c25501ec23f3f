/* Scores of a query's candidates straight from the mapped postings: numpy would copy the postings of all candidates first.

   A part of the library that _loops.c begins; what is said there about arguments, status codes and sums holds here, too.
   Postings are `starts` (rows + 1), `terms` (size) and `frequencies` (size, numbers of so many `bytes`) as a forward index has
   them: those of row d are at starts[d] .. starts[d+1]-1, and its terms are ascending. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "_loops.h"

static int row_in_range(const int64_t *starts, int64_t rows, int64_t size, int64_t row)
{
    return row >= 0 && row < rows && starts[row] >= 0 && starts[row] <= starts[row + 1] && starts[row + 1] <= size;
}

/* Whether all of some rows are in range: checked first, so that their postings can be asked for before they are needed. */
static int rows_in_range(const int64_t *starts, int64_t rows, int64_t size, const int32_t *docs, int64_t count)
{
    for (int64_t d = 0; d < count; d++)
        if (!row_in_range(starts, rows, size, docs[d])) return 0;
    return 1;
}

/* Asks for the terms of a row that is looked at later. */
static inline void prefetch_terms(const int64_t *starts, const int32_t *terms, const int32_t *docs, int64_t count, int64_t d)
{
    if (d + AHEAD >= count) return;
    const int64_t start = starts[docs[d + AHEAD]];
    prefetch(terms + start, (starts[docs[d + AHEAD] + 1] - start) * (int64_t)sizeof *terms);
}

/* A frequency is an unsigned number of 2 bytes or a number of 4. */
static inline int32_t frequency(const void *frequencies, int bytes, int64_t place)
{
    return bytes == 2 ? ((const uint16_t *)frequencies)[place] : ((const int32_t *)frequencies)[place];
}

/* A query's terms as one bit per term of a field; few postings are the query's, and all are looked at. */
typedef struct {
    uint64_t *bits;
    int64_t width;
} Wanted;

/* The status of a query of `asked` terms; bits are to be freed in any case. */
static int wanted_terms(Wanted *wanted, const int64_t *query, int64_t asked, int64_t width)
{
    wanted->width = width;
    wanted->bits = calloc((size_t)(width / 64 + 1), sizeof *wanted->bits);
    if (wanted->bits == NULL) return OUT_OF_MEMORY;
    for (int64_t q = 0; q < asked; q++) {
        if (query[q] < 0 || query[q] >= width) return OUT_OF_RANGE;
        wanted->bits[query[q] / 64] |= UINT64_C(1) << (query[q] % 64);
    }
    return GOOD;
}

enum { BLOCK = 64 };

/* One bit per posting of a block: whether it is the query's. Without branches, since which ones are can't be predicted; a term
   out of range sets `outside`. */
static inline uint64_t wanted_postings(const Wanted *wanted, const int32_t *terms, int64_t count, int *outside)
{
    const uint64_t *bits = wanted->bits, width = (uint64_t)wanted->width;
    uint64_t found = 0, beyond = 0;
    for (int64_t k = 0; k < count; k++) {
        const uint32_t term = (uint32_t)terms[k]; /* a negative one is beyond any width */
        const uint32_t place = term < width ? term : 0;
        beyond |= term ^ place;
        found |= (bits[place / 64] >> (place % 64) & 1) << k;
    }
    *outside |= beyond != 0;
    return found;
}

/* A posting of a row whose term is one of a query's: both places. */
typedef struct {
    int64_t term, posting;
} Match;

/* The postings start .. finish - 1, those of one row, that are of the terms asked for (asked), ascending: how many there are, -1 if
   numbers are out of range. matches (asked) is filled. */
static inline int64_t row_matches(
    const Wanted *wanted, const int64_t *terms_asked, int64_t asked, const int32_t *terms, int64_t start, int64_t finish,
    Match *matches)
{
    int64_t count = 0, place = 0;
    int outside = 0;
    for (; start < finish; start += BLOCK) {
        uint64_t found = wanted_postings(wanted, terms + start, finish - start < BLOCK ? finish - start : BLOCK, &outside);
        for (; found; found &= found - 1) {
            const int64_t k = start + lowest_bit(found);
            while (place < asked && terms_asked[place] < terms[k]) place++; /* both are ascending */
            if (place == asked || terms_asked[place] != terms[k]) return -1;
            matches[count++] = (Match){.term = place++, .posting = k};
        }
    }
    return outside ? -1 : count;
}

/* The frequencies of terms (asked), distinct and ascending, in some rows. out (count, asked): all 0. */
int kernelsearch_term_frequencies(
    const int64_t *starts, int64_t rows, const int32_t *terms, const void *frequencies, int bytes, int64_t size, int64_t width,
    const int32_t *docs, int64_t count, const int64_t *terms_asked, int64_t asked, int32_t *out)
{
    Wanted wanted;
    int status = wanted_terms(&wanted, terms_asked, asked, width);
    Match *matches = calloc((size_t)asked + 1, sizeof *matches);
    if (matches == NULL) status = OUT_OF_MEMORY;
    else if (!rows_in_range(starts, rows, size, docs, count)) status = OUT_OF_RANGE;
    for (int64_t d = 0; d < count && status == GOOD; d++) {
        prefetch_terms(starts, terms, docs, count, d);
        const int64_t held = row_matches(&wanted, terms_asked, asked, terms, starts[docs[d]], starts[docs[d] + 1], matches);
        for (int64_t k = 0; k < held; k++)
            out[d * asked + matches[k].term] = frequency(frequencies, bytes, matches[k].posting);
        if (held < 0) status = OUT_OF_RANGE;
    }
    free(wanted.bits); free(matches);
    return status;
}

/* Queries whose scores are added up together. */
enum { QUERIES = 8 };

/* Adds a term's parts of a row's scores; weights, factors and sums have whole groups of QUERIES. A query without the term has the
   weight 0, which adds 0. */
static inline void add_parts(
    double *restrict sums, const float *restrict weights, const float *restrict factors, int64_t queries, float occurrences)
{
    for (int64_t group = 0; group < queries; group += QUERIES)
        for (int q = 0; q < QUERIES; q++) {
            const float weight = weights[group + q], lost = weight / (1.0f + occurrences * factors[group + q]);
            sums[group + q] += (double)(float)(weight - lost);
        }
}

/* BM25 of some rows for several queries as Lucene adds it up: single precision per term, double precision for the sum.

   width: the number of terms of the field. terms_asked (asked): distinct terms of all queries, ascending; weights (asked, queries):
   their weights in each query times idf. factors (queries, count): each row's length factor (kernels/ranking_models.py).
   out (queries, count). */
int kernelsearch_bm25(
    const int64_t *starts, int64_t rows, const int32_t *terms, const void *frequencies, int bytes, int64_t size, int64_t width,
    const int32_t *docs, int64_t count, const int64_t *terms_asked, const float *weights, int64_t asked, int64_t queries,
    const float *factors, float *out)
{
    const int64_t groups = (queries + QUERIES - 1) / QUERIES * QUERIES;
    Wanted wanted;
    int status = wanted_terms(&wanted, terms_asked, asked, width);
    Match *matches = calloc((size_t)asked + 1, sizeof *matches);
    float *by_term = calloc((size_t)(asked * groups + 1), sizeof *by_term); /* weights and factors, filled up with zeros */
    float *by_query = calloc((size_t)groups + 1, sizeof *by_query);
    double *sums = calloc((size_t)groups + 1, sizeof *sums);
    if (matches == NULL || by_term == NULL || by_query == NULL || sums == NULL) {
        status = OUT_OF_MEMORY;
        goto end;
    }
    if (!rows_in_range(starts, rows, size, docs, count)) status = OUT_OF_RANGE;
    for (int64_t k = 0; k < asked; k++)
        for (int64_t q = 0; q < queries; q++) by_term[k * groups + q] = weights[k * queries + q];
    for (int64_t d = 0; d < count && status == GOOD; d++) {
        prefetch_terms(starts, terms, docs, count, d);
        const int64_t held = row_matches(&wanted, terms_asked, asked, terms, starts[docs[d]], starts[docs[d] + 1], matches);
        for (int64_t q = 0; q < queries; q++) {
            by_query[q] = factors[q * count + d];
            sums[q] = 0;
        }
        for (int64_t k = 0; k < held; k++) {
            const float occurrences = (float)frequency(frequencies, bytes, matches[k].posting);
            add_parts(sums, by_term + matches[k].term * groups, by_query, queries, occurrences);
        }
        for (int64_t q = 0; q < queries; q++) out[q * count + d] = (float)sums[q];
        if (held < 0) status = OUT_OF_RANGE;
    }
end:
    free(wanted.bits); free(matches); free(by_term); free(by_query); free(sums);
    return status;
}

/* 1 over the lengths of the tf·idf vectors of some rows, 0 for an empty row. idf (width); out (count). */
int kernelsearch_inverse_norms(
    const int64_t *starts, int64_t rows, const int32_t *terms, const void *frequencies, int bytes, int64_t size, int64_t width,
    const int32_t *docs, int64_t count, const double *idf, double *out)
{
    for (int64_t d = 0; d < count; d++) {
        if (!row_in_range(starts, rows, size, docs[d])) return OUT_OF_RANGE;
        double squares = 0;
        for (int64_t k = starts[docs[d]]; k < starts[docs[d] + 1]; k++) {
            if (terms[k] < 0 || terms[k] >= width) return OUT_OF_RANGE;
            const double value = idf[terms[k]] * frequency(frequencies, bytes, k);
            squares += value * value;
        }
        out[d] = squares > 0 ? 1 / sqrt(squares) : 0;
    }
    return GOOD;
}

/* Adds centre[term] times frequency of `count` postings of several rows, whose next ones are at `next` (rows), to sums (rows). Sums
   of different rows don't wait for each other. Returns whether a term is out of range. */
static inline int add_products(
    const int64_t *next, double *restrict sums, int rows, int64_t count, const int32_t *terms, const void *frequencies, int bytes,
    int64_t width, const double *centre)
{
    uint32_t beyond = 0;
    for (int64_t k = 0; k < count; k++)
        for (int row = 0; row < rows; row++) {
            const uint32_t term = (uint32_t)terms[next[row] + k], place = term < (uint64_t)width ? term : 0;
            beyond |= term ^ place;
            sums[row] += centre[place] * frequency(frequencies, bytes, next[row] + k);
        }
    return beyond != 0;
}

enum { ROWS = 2 }; /* rows whose products are added up together */

/* Inner products of some rows' term frequencies with `centre` (width), times the rows' `factors` (count). out (count). */
static int row_products(
    const int64_t *starts, int64_t rows, const int32_t *terms, const void *frequencies, int bytes, int64_t size, int64_t width,
    const int32_t *docs, int64_t count, const double *centre, const double *factors, double *out)
{
    int outside = 0;
    if (!rows_in_range(starts, rows, size, docs, count)) return OUT_OF_RANGE;
    for (int64_t d = 0; d < count; d += ROWS) {
        const int group = count - d < ROWS ? (int)(count - d) : ROWS;
        int64_t next[ROWS] = {0}, shared = group == ROWS ? size : 0;
        double sums[ROWS] = {0};
        for (int row = 0; row < group; row++) {
            next[row] = starts[docs[d + row]];
            const int64_t length = starts[docs[d + row] + 1] - next[row];
            if (length < shared) shared = length;
        }
        outside |= add_products(next, sums, ROWS, shared, terms, frequencies, bytes, width, centre);
        for (int row = 0; row < group; row++) {
            const int64_t rest = next[row] + shared, length = starts[docs[d + row] + 1] - rest;
            outside |= add_products(&rest, sums + row, 1, length, terms, frequencies, bytes, width, centre);
            out[d + row] = sums[row] * factors[d + row];
        }
    }
    return outside ? OUT_OF_RANGE : GOOD;
}

/* The weighted sum of each row's tf·idf cosines with the first `best` rows.

   idf (width); weights (best); inverse_norms (count): those of the rows; out (count). */
int kernelsearch_mean_cosines(
    const int64_t *starts, int64_t rows, const int32_t *terms, const void *frequencies, int bytes, int64_t size, int64_t width,
    const int32_t *docs, int64_t count, const double *idf, const double *weights, int64_t best, const double *inverse_norms,
    double *out)
{
    double *centre = calloc(width > 0 ? (size_t)width : 1, sizeof *centre);
    int status = GOOD;
    if (centre == NULL) return OUT_OF_MEMORY;
    /* The centre is multiplied by idf twice, so that the rows need not be. */
    for (int64_t d = 0; d < best && d < count; d++) {
        if (!row_in_range(starts, rows, size, docs[d])) { status = OUT_OF_RANGE; goto end; }
        for (int64_t k = starts[docs[d]]; k < starts[docs[d] + 1]; k++) {
            if (terms[k] < 0 || terms[k] >= width) { status = OUT_OF_RANGE; goto end; }
            const double term_idf = idf[terms[k]], value = term_idf * frequency(frequencies, bytes, k);
            centre[terms[k]] += value * (weights[d] * inverse_norms[d]) * term_idf;
        }
    }
    status = row_products(
        starts, rows, terms, frequencies, bytes, size, width, docs, count, centre, inverse_norms, out);
end:
    free(centre);
    return status;
}

/* Inner products of some rows' term frequencies with a query: distinct terms (asked) and their weights (asked), times the
   rows' `factors` (count). out (count). */
int kernelsearch_query_products(
    const int64_t *starts, int64_t rows, const int32_t *terms, const void *frequencies, int bytes, int64_t size, int64_t width,
    const int32_t *docs, int64_t count, const int64_t *query, const double *weights, int64_t asked, const double *factors,
    double *out)
{
    double *centre = calloc(width > 0 ? (size_t)width : 1, sizeof *centre);
    int status = centre == NULL ? OUT_OF_MEMORY : GOOD;
    for (int64_t q = 0; q < asked && status == GOOD; q++) {
        if (query[q] < 0 || query[q] >= width) status = OUT_OF_RANGE;
        else centre[query[q]] = weights[q];
    }
    if (status == GOOD)
        status = row_products(starts, rows, terms, frequencies, bytes, size, width, docs, count, centre, factors, out);
    free(centre);
    return status;
}

/* Eight running sums, which are added in a fixed order: the result is the same for every width of vector registers. */
enum { SUMS = 8 };

VECTORISED static void scaled_products(
    const float *restrict row, const float *restrict scale, const float *restrict vector, int64_t dims, double *restrict sums)
{
    double product[SUMS] = {0}, square[SUMS] = {0};
    int64_t k = 0;
    for (; k + SUMS <= dims; k += SUMS)
        for (int lane = 0; lane < SUMS; lane++) {
            const double value = (double)(row[k + lane] * scale[k + lane]);
            product[lane] += value * (double)vector[k + lane];
            square[lane] += value * value;
        }
    for (int lane = 0; k < dims; k++, lane++) {
        const double value = (double)(row[k] * scale[k]);
        product[lane] += value * (double)vector[k];
        square[lane] += value * value;
    }
    sums[0] = sums[1] = 0;
    for (int lane = 0; lane < SUMS; lane++) {
        sums[0] += product[lane];
        sums[1] += square[lane];
    }
}

/* Inner products of `vector` (dims) with rows of a table (rows, width) whose first `dims` places are multiplied by `scale`
   (dims) and brought to unit length; 0 for a row of zeros. out (count). */
int kernelsearch_unit_products(
    const float *table, int64_t rows, int64_t width, int64_t dims, const float *scale, const float *vector,
    const int32_t *docs, int64_t count, float *out)
{
    if (dims > width) return OUT_OF_RANGE;
    for (int64_t d = 0; d < count; d++)
        if (docs[d] < 0 || docs[d] >= rows) return OUT_OF_RANGE;
    for (int64_t d = 0; d < count; d++) {
        double sums[2];
        if (d + 1 < count) prefetch(table + docs[d + 1] * width, dims * (int64_t)sizeof *table);
        scaled_products(table + docs[d] * width, scale, vector, dims, sums);
        out[d] = sums[1] > 0 ? (float)(sums[0] / sqrt(sums[1])) : 0.0f;
    }
    return GOOD;
}
