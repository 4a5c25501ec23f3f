/* Reading lines of a run file in TREC's form: qid Q0 docid rank score tag.

   A part of the library that _loops.c begins. Only plain lines are read here: ASCII without control characters, six columns, a
   rank of digits, a decimal score. For a block with any other line UNUSUAL is returned; kernelsearch/trec/runs.py then reads it
   and says what is wrong with it, if anything is. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_loops.h"

enum { COLUMNS = 6, QID = 0, DOCID = 2, RANK = 3, SCORE = 4, RANK_DIGITS = 18, EXACT_DIGITS = 15 };

/* A decimal number, rounded as Python rounds it; UNUSUAL for all other texts. Characters after `end` are not part of it. */
static int decimal(const char *text, const char *end, double *out)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *at = text;
    const int negative = *at == '-';
    int64_t digits = 0;
    int count = 0, fraction = 0, point = 0;
    at += *at == '-' || *at == '+';
    for (; at < end && count <= EXACT_DIGITS; at++) {
        if (*at == '.' && !point) {
            point = 1;
        } else if (*at >= '0' && *at <= '9') {
            digits = 10 * digits + (*at - '0');
            count++;
            fraction += point;
        } else {
            break;
        }
    }
    if (at == end && count > 0 && count <= EXACT_DIGITS) {
        /* Both are exact, so the quotient is rounded once. */
        const double value = (double)digits / powers[fraction];
        *out = negative ? -value : value;
        return GOOD;
    }
    for (at = text; at < end; at++)
        if (strchr("0123456789.eE+-", *at) == NULL) return UNUSUAL; /* `inf`, hexadecimal numbers */
    char *stop = NULL;
    *out = strtod(text, &stop); /* stops at the point where a locale has another one */
    return stop == end && isfinite(*out) ? GOOD : UNUSUAL;
}

/* text (size, then NUL): whole lines, at most `most` of them. longest: bytes of an id. docids (size + 1) and qids (size + 1): ids,
   each followed by a line feed; a qid is there once for adjacent lines, and starts (most) is the first of these. ranks (most),
   scores (most). counts (4): lines, qids, and the bytes of docids and of qids. */
int kernelsearch_run_lines(
    const char *text, int64_t size, int64_t most, int64_t longest, char *docids, char *qids, int64_t *starts, int64_t *ranks,
    double *scores, int64_t *counts)
{
    const char *at = text, *const finish = text + size, *last_qid = NULL;
    char *docid_end = docids, *qid_end = qids;
    int64_t lines = 0, topics = 0, last_size = -1;
    while (at < finish) {
        const char *field[COLUMNS];
        int64_t length[COLUMNS];
        int columns = 0;
        if (lines == most) return UNUSUAL;
        for (;;) {
            while (*at == ' ' || *at == '\t') at++;
            if (*at == '\r' && (at + 1 == finish || at[1] == '\n')) at++;
            if (at == finish || *at == '\n') break;
            if (columns == COLUMNS) return UNUSUAL;
            const char *begin = at;
            while (*at > ' ' && *at < 127) at++; /* stops at bytes above 127, too, whether char is signed or not */
            if (at == begin) return UNUSUAL;
            field[columns] = begin;
            length[columns++] = at - begin;
        }
        at += at < finish;
        if (columns != COLUMNS || length[QID] > longest || length[DOCID] > longest || length[RANK] > RANK_DIGITS) return UNUSUAL;
        int64_t rank = 0;
        for (int64_t k = 0; k < length[RANK]; k++) {
            const char digit = field[RANK][k];
            if (digit < '0' || digit > '9') return UNUSUAL;
            rank = 10 * rank + (digit - '0');
        }
        ranks[lines] = rank;
        if (decimal(field[SCORE], field[SCORE] + length[SCORE], &scores[lines]) != GOOD) return UNUSUAL;
        memcpy(docid_end, field[DOCID], (size_t)length[DOCID]);
        docid_end += length[DOCID];
        *docid_end++ = '\n';
        if (length[QID] != last_size || memcmp(field[QID], last_qid, (size_t)last_size) != 0) {
            last_qid = field[QID];
            last_size = length[QID];
            memcpy(qid_end, last_qid, (size_t)last_size);
            qid_end += last_size;
            *qid_end++ = '\n';
            starts[topics++] = lines;
        }
        lines++;
    }
    counts[0] = lines;
    counts[1] = topics;
    counts[2] = docid_end - docids;
    counts[3] = qid_end - qids;
    return GOOD;
}
