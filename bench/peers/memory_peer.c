/* How long memory takes to be read: as many bytes as a workload reads, so often, by all threads, each its part. */
#include "protocol.h"

#include <omp.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

static struct {
    long bytes, reads, size; /* of one reading, how many, and of the memory */
    char *memory;
    int threads;
    volatile long sink;
} m;

static long sum(const char *p, long bytes) {
#ifdef __AVX2__
    __m256i s[8] = {0};
    /* Lines go to the second-level cache first, which has more of them on their way than the first. A processor may
       fetch nothing to it from a page whose address it does not know, which a line for the first-level cache has it find. */
    for (long at = 0; at + 256 <= bytes; at += 256) {
        if (at % 4096 == 0) _mm_prefetch(p + at + 16384, _MM_HINT_T0);
        _mm_prefetch(p + at + 8192, _MM_HINT_T1);
        _mm_prefetch(p + at + 8256, _MM_HINT_T1);
        _mm_prefetch(p + at + 8320, _MM_HINT_T1);
        _mm_prefetch(p + at + 8384, _MM_HINT_T1);
        for (int i = 0; i < 8; i++) s[i] = _mm256_add_epi64(s[i], _mm256_load_si256((const __m256i *)(p + at + 32 * i)));
    }
    for (int i = 1; i < 8; i++) s[0] = _mm256_add_epi64(s[0], s[i]);
    return _mm256_extract_epi64(s[0], 0) + _mm256_extract_epi64(s[0], 1) + _mm256_extract_epi64(s[0], 2) + _mm256_extract_epi64(s[0], 3);
#else
    long s[4] = {0};
    const long *x = (const long *)p;
    for (long at = 0; at + 4 <= bytes / 8; at += 4)
        for (int i = 0; i < 4; i++) s[i] += x[at + i];
    return s[0] + s[1] + s[2] + s[3];
#endif
}

static void step(void *unused) {
    (void)unused;
    long from = 0;
    for (long r = 0; r < m.reads; r++) {
        /* What was read last is in a cache, if anything is: the next reading begins behind it. */
        if (from + m.bytes > m.size) from = 0;
        const char *p = m.memory + from;
        from += m.bytes;
        long total = 0;
#pragma omp parallel num_threads(m.threads) reduction(+ : total)
        {
            long part = m.bytes / m.threads / 256 * 256;
            total += sum(p + part * omp_get_thread_num(), part);
        }
        m.sink = total;
    }
}

int open_workload(const char *request, int threads, formulation *out) {
    m.bytes = (long)number_of(request, "bytes", 0) / 4096 * 4096, m.reads = (long)number_of(request, "reads", 0), m.threads = threads;
    if (m.bytes <= 0 || m.reads <= 0) return 0;
    free(m.memory);
    m.size = m.bytes > (512L << 20) ? m.bytes : (512L << 20) / m.bytes * m.bytes;
    if (posix_memalign((void **)&m.memory, 4096, m.size + 32768)) {
        m.memory = NULL;
        return fail("no memory");
    }
    for (long i = 0; i < m.size + 32768; i++) m.memory[i] = (char)(i * 31);
    strcpy(out->name, "sums of all words");
    out->step = step;
    return 1;
}

int main(void) { return serve("memory", ""); }
