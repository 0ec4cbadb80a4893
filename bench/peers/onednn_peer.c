/* oneDNN: c f32[n,n] = a[n,n] b[n,n] in f32 and bf16, by its matmul primitive, b
 * as it lies and in the layout that the primitive asks for. For oneDNN 2 and 3. */
#include "protocol.h"

#include <dnnl.h>
#include <omp.h>

static struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} d;

typedef struct {
    dnnl_primitive_t p;
    dnnl_exec_arg_t args[3];
} product;

static void execute(void *state) {
    product *x = state;
    dnnl_primitive_execute(x->p, d.stream, 3, x->args);
    dnnl_stream_wait(d.stream);
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_memory_desc_t describe(int n, dnnl_data_type_t t, dnnl_format_tag_t tag) {
    dnnl_dims_t dims = {n, n};
    dnnl_memory_desc_t md = 0;
    dnnl_memory_desc_create_with_tag(&md, 2, dims, t, tag);
    return md;
}
#define DESC(md) (md)
typedef dnnl_memory_desc_t desc;
typedef const_dnnl_memory_desc_t const_desc;
#else
typedef dnnl_memory_desc_t desc;
typedef const dnnl_memory_desc_t *const_desc;
static desc describe(int n, dnnl_data_type_t t, dnnl_format_tag_t tag) {
    dnnl_dims_t dims = {n, n};
    desc md;
    dnnl_memory_desc_init_by_tag(&md, 2, dims, t, tag);
    return md;
}
#define DESC(md) (&(md))
#endif

/* Copies a memory to another layout or type. */
static int reorder(dnnl_memory_t from, const_desc from_desc, dnnl_memory_t to, const_desc to_desc) {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t p;
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (dnnl_reorder_primitive_desc_create(&pd, from_desc, d.engine, to_desc, d.engine, 0) || dnnl_primitive_create(&p, pd) ||
        dnnl_primitive_execute(p, d.stream, 2, args) || dnnl_stream_wait(d.stream))
        return -1;
    dnnl_primitive_destroy(p);
    dnnl_primitive_desc_destroy(pd);
    return 0;
}

/* A matrix of f32 data as type t in the layout of md. */
static dnnl_memory_t matrix(float *data, int n, const_desc md) {
    dnnl_memory_t plain, out;
    desc f32 = describe(n, dnnl_f32, dnnl_ab);
    if (dnnl_memory_create(&plain, DESC(f32), d.engine, data) || dnnl_memory_create(&out, md, d.engine, DNNL_MEMORY_ALLOCATE) ||
        reorder(plain, DESC(f32), out, md))
        return 0;
    dnnl_memory_destroy(plain);
    return out;
}

static int prepare(product *x, int n, dnnl_data_type_t t, dnnl_format_tag_t weights, float *a, float *b, float *c) {
    desc ad = describe(n, t, dnnl_ab), bd = describe(n, t, weights), cd = describe(n, dnnl_f32, dnnl_ab);
    dnnl_primitive_desc_t pd;
    dnnl_memory_t result;
#if DNNL_VERSION_MAJOR >= 3
    if (dnnl_matmul_primitive_desc_create(&pd, d.engine, ad, bd, 0, cd, 0)) return fail("no matmul primitive for this type");
#else
    dnnl_matmul_desc_t md;
    if (dnnl_matmul_desc_init(&md, &ad, &bd, 0, &cd) || dnnl_primitive_desc_create(&pd, &md, 0, d.engine, 0)) return fail("no matmul primitive for this type");
#endif
    const_desc wanted = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    dnnl_memory_t ma = matrix(a, n, DESC(ad)), mb = matrix(b, n, wanted);
    if (!ma || !mb || dnnl_memory_create(&result, DESC(cd), d.engine, c) || dnnl_primitive_create(&x->p, pd)) return fail("oneDNN: a matrix or the primitive could not be made");
    x->args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, ma};
    x->args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, mb};
    x->args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, result};
    dnnl_primitive_desc_destroy(pd);
    return 0;
}

int open_workload(const char *request, int threads, formulation *out) {
    static product products[2];
    static float *c[2];
    char workload[512];
    size_t bytes;
    int n = (int)number_of(request, "n", 0);
    text_of(request, "workload", workload);
    int bf16 = !strcmp(workload, "matmul_bf16");
    if (!bf16 && strcmp(workload, "matmul_f32")) return 0;
    omp_set_num_threads(threads);
    if (!d.engine && (dnnl_engine_create(&d.engine, dnnl_cpu, 0) || dnnl_stream_create(&d.stream, d.engine, dnnl_stream_default_flags)))
        return fail("oneDNN: no engine");
    for (int i = 0; i < 2; i++) {
        if (products[i].p) {
            dnnl_primitive_destroy(products[i].p);
            for (int j = 0; j < 3; j++) dnnl_memory_destroy(products[i].args[j].memory);
            free(c[i]);
        }
        memset(&products[i], 0, sizeof products[i]);
    }
    float *a = read_npy(request, "in", "a", &bytes), *b = read_npy(request, "in", "b", &bytes);
    if (!a || !b) return -1;
    for (int i = 0; i < 2; i++) {
        c[i] = aligned_alloc(64, (size_t)n * n * 4);
        if (prepare(&products[i], n, bf16 ? dnnl_bf16 : dnnl_f32, i ? dnnl_format_tag_any : dnnl_ab, a, b, c[i])) snprintf(out[i].failure, sizeof out[i].failure, "%s", failure_text);
        strcpy(out[i].name, i ? "matmul, weights packed before" : "matmul");
        out[i].step = execute, out[i].state = &products[i];
        out[i].result = c[i], out[i].elements = (size_t)n * n, out[i].want = "c";
    }
    free(a), free(b);
    return 2;
}

int main(void) {
    const dnnl_version_t *v = dnnl_version();
    char version[64];
    snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
    return serve("oneDNN", version);
}
