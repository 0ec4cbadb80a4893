/* ggml, and with IK_LLAMA ik_llama.cpp's: one MoE layer of decoding with weights
 * in blocks, as their llama_build_moe builds it. The blocks come from gomoe, and
 * are those of GGUF files. Every step takes the next tokens of several, so that
 * it reads other experts. */
#include "protocol.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#ifdef IK_LLAMA
void iqk_repack_tensor(struct ggml_tensor *t);
#define TOP_K ggml_top_k
#define NAME "ik_llama"
#else
#include <ggml-cpu.h>
#define TOP_K ggml_argsort_top_k
#define NAME "ggml"
#endif

typedef struct {
    int tokens, hidden, experts, top_k, ffn, sets, next;
    const float *x; /* [sets, tokens, hidden] */
    struct ggml_context *weights, *graph_ctx;
    ggml_backend_buffer_t weight_buffer, graph_buffer;
    struct ggml_cgraph *graph;
    struct ggml_tensor *in, *out;
} layer;

static ggml_backend_t backend;

static void step(void *state) {
    layer *l = state;
    size_t n = (size_t)l->tokens * l->hidden;
    ggml_backend_tensor_set(l->in, l->x + n * (l->next++ % l->sets), 0, n * 4);
    ggml_backend_graph_compute(backend, l->graph);
}

static void release(layer *l) {
    if (l->weight_buffer) ggml_backend_buffer_free(l->weight_buffer);
    if (l->graph_buffer) ggml_backend_buffer_free(l->graph_buffer);
    if (l->weights) ggml_free(l->weights);
    if (l->graph_ctx) ggml_free(l->graph_ctx);
    memset(l, 0, sizeof *l);
}

#ifndef IK_LLAMA
/* The buffer type whose tensors are repacked for this processor, or 0. */
static ggml_backend_buffer_type_t repacking(void) {
    ggml_backend_dev_t dev = ggml_backend_get_device(backend);
    ggml_backend_dev_get_extra_bufts_t extra =
        (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev), "ggml_backend_dev_get_extra_bufts");
    ggml_backend_buffer_type_t *all = extra ? extra(dev) : 0;
    for (; all && *all; all++)
        if (strstr(ggml_backend_buft_name(*all), "REPACK")) return *all;
    return 0;
}
#endif

/* Builds the layer with the blocks given. */
static int build(layer *l, enum ggml_type type, void *const *blocks, const float *router, int repack, int fused) {
    struct ggml_init_params meta = {ggml_tensor_overhead() * 256 + ggml_graph_overhead(), 0, 1};
    int d = l->hidden, f = l->ffn, e = l->experts, k = l->top_k, t = l->tokens;
    struct ggml_context *c = l->weights = ggml_init(meta);
    struct ggml_tensor *w[3] = {ggml_new_tensor_3d(c, type, d, f, e), ggml_new_tensor_3d(c, type, d, f, e), ggml_new_tensor_3d(c, type, f, d, e)};
    ggml_backend_buffer_type_t place = ggml_backend_get_default_buffer_type(backend);
#ifndef IK_LLAMA
    if (repack && !(place = repacking())) return fail("this build does not repack");
#endif
    l->weight_buffer = ggml_backend_alloc_ctx_tensors_from_buft(c, place);
    if (!l->weight_buffer) return fail("no memory for the weights");
    for (int i = 0; i < 3; i++) {
#ifndef IK_LLAMA
        if (repack && !w[i]->extra) return fail("not repacked on this processor");
#endif
        ggml_backend_tensor_set(w[i], blocks[i], 0, ggml_nbytes(w[i]));
#ifdef IK_LLAMA
        if (repack) {
            iqk_repack_tensor(w[i]);
            if (w[i]->type == type) return fail("not repacked on this processor");
        }
#endif
    }
    c = l->graph_ctx = ggml_init(meta);
    l->in = ggml_new_tensor_2d(c, GGML_TYPE_F32, d, t);
    struct ggml_tensor *r = ggml_new_tensor_2d(c, GGML_TYPE_F32, d, e);
    struct ggml_tensor *p = ggml_soft_max(c, ggml_mul_mat(c, r, l->in));
    struct ggml_tensor *ids = TOP_K(c, p, k);
    struct ggml_tensor *s = ggml_reshape_2d(c, ggml_get_rows(c, ggml_reshape_3d(c, p, 1, e, t), ids), k, t);
    s = ggml_reshape_3d(c, ggml_div(c, s, ggml_sum_rows(c, s)), 1, k, t);
    struct ggml_tensor *x = ggml_reshape_3d(c, l->in, d, 1, t), *h;
#ifdef IK_LLAMA
    if (fused)
        h = ggml_moe_up_gate(c, w[1], w[0], x, ids, GGML_UNARY_OP_SILU);
    else
        h = ggml_mul(c, ggml_silu(c, ggml_mul_mat_id(c, w[0], x, ids)), ggml_mul_mat_id(c, w[1], x, ids));
#else
    (void)fused;
    h = ggml_swiglu_split(c, ggml_mul_mat_id(c, w[0], x, ids), ggml_mul_mat_id(c, w[1], x, ids));
#endif
    struct ggml_tensor *y = ggml_mul(c, ggml_mul_mat_id(c, w[2], h, ids), s);
#ifdef IK_LLAMA
    l->out = ggml_multi_add(c, ggml_view_2d(c, y, d, t, y->nb[2], 0), k);
#else
    l->out = ggml_view_2d(c, y, d, t, y->nb[2], 0);
    for (int i = 1; i < k; i++) l->out = ggml_add(c, l->out, ggml_view_2d(c, y, d, t, y->nb[2], (size_t)i * y->nb[1]));
#endif
    l->graph = ggml_new_graph(c);
    ggml_build_forward_expand(l->graph, l->out);
    l->graph_buffer = ggml_backend_alloc_ctx_tensors_from_buft(c, ggml_backend_get_default_buffer_type(backend));
    if (!l->graph_buffer) return fail("no memory for the graph");
    ggml_backend_tensor_set(r, router, 0, ggml_nbytes(r));
    return 0;
}

int open_workload(const char *request, int threads, formulation *out) {
    static layer layers[MOST_FORMULATIONS];
    static float *x;
    char workload[512];
    enum ggml_type type;
    size_t bytes;
    text_of(request, "workload", workload);
    if (!strcmp(workload, "decode_q4_k"))
        type = GGML_TYPE_Q4_K;
    else if (!strcmp(workload, "decode_q8_0"))
        type = GGML_TYPE_Q8_0;
    else
        return 0;
    if (!backend && !(backend = ggml_backend_cpu_init())) return fail("no CPU backend");
    ggml_backend_cpu_set_n_threads(backend, threads);
    for (int i = 0; i < MOST_FORMULATIONS; i++) release(&layers[i]);
    free(x);
    x = read_npy(request, "in", "x", &bytes);
    float *router = read_npy(request, "in", "router", &bytes);
    void *blocks[3] = {read_npy(request, "in", "gate", &bytes), read_npy(request, "in", "up", &bytes), read_npy(request, "in", "down", &bytes)};
    if (!x || !router || !blocks[0] || !blocks[1] || !blocks[2]) return -1;
    int n = 0;
    for (int repack = 0; repack < 2; repack++) {
#ifdef IK_LLAMA
        for (int fused = 0; fused < 2; fused++) {
#else
        for (int fused = 0; fused < 1; fused++) {
#endif
            layer *l = &layers[n];
            formulation *o = &out[n++];
            l->x = x;
            l->tokens = (int)number_of(request, "tokens", 0), l->hidden = (int)number_of(request, "hidden", 0);
            l->experts = (int)number_of(request, "experts", 0), l->top_k = (int)number_of(request, "top_k", 0);
            l->ffn = (int)number_of(request, "ffn", 0), l->sets = (int)number_of(request, "sets", 1);
            snprintf(o->name, sizeof o->name, "%s%s", fused ? "moe_up_gate" : "mul_mat_id", repack ? ", repacked" : "");
            if (build(l, type, blocks, router, repack, fused)) {
                snprintf(o->failure, sizeof o->failure, "%s", failure_text);
                release(l);
                continue;
            }
            o->step = step, o->state = l;
            o->result = l->out->data, o->elements = (size_t)l->tokens * l->hidden, o->want = "out";
        }
    }
    free(router);
    for (int i = 0; i < 3; i++) free(blocks[i]);
    return n;
}

#ifndef PEER_VERSION
#define PEER_VERSION ""
#endif
int main(void) { return serve(NAME, PEER_VERSION); }
