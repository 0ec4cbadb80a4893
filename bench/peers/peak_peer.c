/* The processor's own peak: as many multiplications and additions as the product
 * has, with nothing to load or store. bf16 counts what VDPBF16PS does. */
#include "protocol.h"

#include <omp.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
enum { LANES = VECTOR_BYTES / 4, CHAINS = 12 };

static struct {
    double flop;
    int threads;
    volatile float sink;
} m;

/* Twelve chains hide the latency of two units; the register file holds them. */
static void f32(void *unused) {
    (void)unused;
    long rounds = (long)(m.flop / (2.0 * LANES * CHAINS * m.threads));
#pragma omp parallel num_threads(m.threads)
    {
        vector s[CHAINS], x, y;
        for (int l = 0; l < LANES; l++) x[l] = 0.999f, y[l] = 0.001f;
        for (int i = 0; i < CHAINS; i++) s[i] = x * (float)i;
        for (long r = 0; r < rounds; r++) {
#pragma GCC unroll 12
            for (int i = 0; i < CHAINS; i++) s[i] = s[i] * x + y;
        }
        float t = 0;
        for (int i = 0; i < CHAINS; i++)
            for (int l = 0; l < LANES; l++) t += ((vector)s[i])[l];
        m.sink = t;
    }
}

#ifdef __AVX512BF16__
static void bf16(void *unused) {
    (void)unused;
    long rounds = (long)(m.flop / (2.0 * 32 * CHAINS * m.threads));
#pragma omp parallel num_threads(m.threads)
    {
        __m512 s[CHAINS];
        __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f)), y = x;
        for (int i = 0; i < CHAINS; i++) s[i] = _mm512_set1_ps((float)i);
        for (long r = 0; r < rounds; r++) {
#pragma GCC unroll 12
            for (int i = 0; i < CHAINS; i++) s[i] = _mm512_dpbf16_ps(s[i], x, y);
        }
        float t = 0;
        for (int i = 0; i < CHAINS; i++)
            for (int l = 0; l < LANES; l++) t += ((vector)s[i])[l];
        m.sink = t;
    }
}
#endif

int open_workload(const char *request, int threads, formulation *out) {
    char workload[512];
    double n = number_of(request, "n", 0);
    text_of(request, "workload", workload);
    m.flop = 2 * n * n * n, m.threads = threads;
    if (!strcmp(workload, "matmul_f32")) {
        strcpy(out->name, "multiply-adds in registers");
        out->step = f32;
        return 1;
    }
#ifdef __AVX512BF16__
    if (!strcmp(workload, "matmul_bf16")) {
        strcpy(out->name, "vdpbf16ps in registers");
        out->step = bf16;
        return 1;
    }
#endif
    return 0;
}

int main(void) { return serve("peak", ""); }
