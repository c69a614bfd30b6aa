/* Softmax over rows of bf16 scores, for training on a CPU: one pass over a row while it lies in the cache.

   A bf16 number is the upper half of an fp32 one. The loops are plain, so that the compiler can vectorise them for the
   processor at hand (-O3 -march=native -ffast-math). */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LONGEST 8192 /* columns in a row, at most: more than the context and more than the vocabulary */

static inline float widen(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t narrow(float value) { /* rounds to nearest, ties to even */
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Fill `out` with exp(scale * (row - largest)); return the sum, and scale * largest in `top`. */
static float exponentials(const uint16_t *row, float *out, long columns, float scale, float *top) {
    float largest = -INFINITY, sum = 0.0f;
    for (long i = 0; i < columns; i++) {
        out[i] = widen(row[i]) * scale;
        largest = out[i] > largest ? out[i] : largest;
    }
    for (long i = 0; i < columns; i++) {
        out[i] = expf(out[i] - largest);
        sum += out[i];
    }
    *top = largest;
    return sum;
}

/* Turn scores [groups, rows, columns] into causal attention weights, in place. A row holds one query head at one position;
   `share` rows follow each other at the same position, and the first rows stand at position `first`. */
void attention_weights(uint16_t *scores, long groups, long rows, long columns, long share, long first, float scale) {
    float line[LONGEST], top;
    for (long index = 0; index < groups * rows; index++) {
        uint16_t *row = scores + index * columns;
        long seen = first + (index % rows) / share + 1;
        float factor = 1.0f / exponentials(row, line, seen, scale, &top);
        for (long i = 0; i < seen; i++) row[i] = narrow(line[i] * factor);
        memset(row + seen, 0, (size_t)(columns - seen) * sizeof *row);
    }
}

/* Turn the gradients of attention weights into those of the scores, in place. */
void attention_gradients(uint16_t *grads, const uint16_t *weights, long groups, long rows, long columns, long share,
                         long first, float scale) {
    for (long index = 0; index < groups * rows; index++) {
        uint16_t *grad = grads + index * columns;
        const uint16_t *weight = weights + index * columns;
        long seen = first + (index % rows) / share + 1;
        float mean = 0.0f;
        for (long i = 0; i < seen; i++) mean += widen(grad[i]) * widen(weight[i]);
        for (long i = 0; i < seen; i++) grad[i] = narrow(widen(weight[i]) * (widen(grad[i]) - mean) * scale);
        memset(grad + seen, 0, (size_t)(columns - seen) * sizeof *grad);
    }
}

/* Turn logits [rows, columns] into the gradients of the mean cross-entropy, in place; return the sum of the losses. */
double cross_entropy(uint16_t *logits, const int64_t *targets, long rows, long columns, float factor) {
    float line[LONGEST], top;
    double total = 0.0;
    for (long index = 0; index < rows; index++) {
        uint16_t *row = logits + index * columns;
        long target = (long)targets[index];
        float wanted = widen(row[target]);
        float sum = exponentials(row, line, columns, 1.0f, &top);
        total += (double)(logf(sum) + top - wanted);
        line[target] -= sum;
        float scaled = factor / sum;
        for (long i = 0; i < columns; i++) row[i] = narrow(line[i] * scaled);
    }
    return total;
}
