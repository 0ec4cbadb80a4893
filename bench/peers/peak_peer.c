/* The processor's own peak: as many multiplications and additions as the product
 * has, with nothing to load or store. bf16 counts what VDPBF16PS does, and TDPBF16PS
 * where the system permits tiles. */
#include "protocol.h"

#include <omp.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif
#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
#define TILES
#include <sys/syscall.h>
#include <unistd.h>
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

#ifdef TILES
/* Linux wants to be asked before a process uses the tiles' registers. */
static int permitted(void) { return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18) == 0; }

/* A dot is of 16 rows of 32 pairs, and takes 16 cycles of a unit and some 52 until its sum can be used. */
static void tiles(void *unused) {
    (void)unused;
    long rounds = (long)(m.flop / (2.0 * 16 * 16 * 32 * 6 * m.threads)) + 1;
#pragma omp parallel num_threads(m.threads)
    {
        struct {
            unsigned char palette, start, zero[14];
            unsigned short bytes[16];
            unsigned char rows[16];
        } config = {1};
        unsigned short x[512];
        float sums[256];
        for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = 16;
        for (int i = 0; i < 512; i++) x[i] = 0x3f00 + i % 128; /* 0.5 and more */
        _tile_loadconfig(&config);
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); _tile_zero(4); _tile_zero(5);
        _tile_loadd(6, x, 64); _tile_loadd(7, x, 64);
        for (long r = 0; r < rounds; r++) {
            _tile_dpbf16ps(0, 6, 7); _tile_dpbf16ps(1, 6, 7); _tile_dpbf16ps(2, 6, 7);
            _tile_dpbf16ps(3, 6, 7); _tile_dpbf16ps(4, 6, 7); _tile_dpbf16ps(5, 6, 7);
        }
        _tile_stored(0, sums, 64);
        _tile_release();
        m.sink = sums[0];
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
#ifdef TILES
        if (permitted()) {
            strcpy(out[1].name, "tdpbf16ps in registers");
            out[1].step = tiles;
            return 2;
        }
#endif
        return 1;
    }
#endif
    return 0;
}

int main(void) { return serve("peak", ""); }
