/* OpenBLAS: c[n,n] = a[n,n] b[n,n] in f32. */
#include "protocol.h"

#include <cblas.h>

static struct {
    int n;
    float *a, *b, *c;
} m;

static void sgemm(void *unused) {
    (void)unused;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m.n, m.n, m.n, 1, m.a, m.n, m.b, m.n, 0, m.c, m.n);
}

int open_workload(const char *request, int threads, formulation *out) {
    char workload[512];
    size_t bytes;
    if (strcmp(text_of(request, "workload", workload), "matmul_f32")) return 0;
    openblas_set_num_threads(threads);
    free(m.a), free(m.b), free(m.c);
    m.n = (int)number_of(request, "n", 0);
    m.a = read_npy(request, "in", "a", &bytes);
    m.b = read_npy(request, "in", "b", &bytes);
    m.c = aligned_alloc(64, (size_t)m.n * m.n * 4);
    if (!m.a || !m.b || !m.c) return -1;
    strcpy(out->name, "cblas_sgemm");
    out->step = sgemm, out->result = m.c, out->elements = (size_t)m.n * m.n, out->want = "c";
    return 1;
}

int main(void) {
    char version[128];
    snprintf(version, sizeof version, "%s %s", strtok(openblas_get_config() + strlen("OpenBLAS "), " "), openblas_get_corename());
    return serve("OpenBLAS", version);
}
