/* The C peers' side of the protocol of bench/doc.go. A program defines
 *
 *     int open_workload(const char *request, int threads, formulation *out);
 *
 * which returns how many formulations it has prepared, 0 for a workload that it
 * does not know, -1 after fail(). Results are float32 and are compared with the
 * file want_<want>.npy, unless there is none to compare. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_FORMULATIONS 16

typedef struct {
    char name[96];
    char failure[160];      /* why it cannot run, or "" */
    void (*step)(void *);   /* computes everything once and waits */
    void *state;
    const float *result;    /* of the first step since it was opened */
    size_t elements;
    const char *want;       /* the name of gomoe's result, or 0 */
    double error, ns;
} formulation;

int open_workload(const char *request, int threads, formulation *out);

static char failure_text[160];

static int fail(const char *format, ...) {
    va_list a;
    va_start(a, format);
    vsnprintf(failure_text, sizeof failure_text, format, a);
    va_end(a);
    for (char *c = failure_text; *c; c++)
        if (*c == '"' || *c == '\\' || *c == '\n') *c = ' ';
    return -1;
}

/* Where the value of a key of the request begins. gomoe's keys are unique. */
static const char *value_of(const char *request, const char *key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(request, quoted);
    return at ? at + strlen(quoted) : 0;
}

static double number_of(const char *request, const char *key, double otherwise) {
    const char *v = value_of(request, key);
    return v ? strtod(v, 0) : otherwise;
}

/* The text of a key; to is at least 512 bytes. Paths have no escapes. */
static const char *text_of(const char *request, const char *key, char *to) {
    const char *v = value_of(request, key);
    size_t n = 0;
    if (v && *v == '"')
        for (v++; *v && *v != '"' && n < 511; v++) to[n++] = *v;
    to[n] = 0;
    return to;
}

/* Reads the elements of an .npy file as they lie there, or returns 0. */
static void *read_npy(const char *request, const char *prefix, const char *name, size_t *bytes) {
    char dir[512], path[1024];
    unsigned char head[12];
    snprintf(path, sizeof path, "%s/%s_%s.npy", text_of(request, "dir", dir), prefix, name);
    FILE *f = fopen(path, "rb");
    void *data = 0;
    if (!f || fread(head, 1, 10, f) != 10) {
        fail("%s: %s", path, strerror(errno));
        goto end;
    }
    long start = 10 + head[8] + 256 * head[9];
    if (head[6] > 1) {
        if (fread(head + 10, 1, 2, f) != 2) goto end;
        start = 12 + head[8] + 256L * head[9] + 65536L * head[10] + 16777216L * head[11];
    }
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)(ftell(f) - start);
    fseek(f, start, SEEK_SET);
    data = aligned_alloc(64, (*bytes + 127) / 64 * 64);
    if (data && fread(data, 1, *bytes, f) != *bytes) {
        fail("%s: short", path);
        free(data);
        data = 0;
    }
end:
    if (f) fclose(f);
    return data;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Runs a formulation for so long; the fastest run. Every run is printed to f. */
static double spin(const formulation *x, double seconds, FILE *f) {
    double best = 1e30, begin = now_ns();
    for (int i = 0; i == 0 || now_ns() - begin < 1e9 * seconds; i++) {
        double t = now_ns();
        x->step(x->state);
        t = now_ns() - t;
        if (t < best) best = t;
        if (f) fprintf(f, "%s%.0f", i ? "," : "", t);
    }
    return best;
}

/* Runs and checks x; 0 if its time counts. */
static int check(formulation *x, const char *request, double tolerance) {
    if (x->failure[0]) return -1;
    x->step(x->state);
    if (!x->want) return 0;
    size_t bytes = 0;
    float *want = read_npy(request, "want", x->want, &bytes);
    if (!want || bytes / 4 != x->elements) {
        snprintf(x->failure, sizeof x->failure, "no result %s of %zu elements to compare with", x->want, x->elements);
        free(want);
        return -1;
    }
    double most = 1e-30, off = 0;
    for (size_t i = 0; i < x->elements; i++) {
        double d = fabs((double)x->result[i] - (double)want[i]);
        if (fabs((double)want[i]) > most) most = fabs((double)want[i]);
        if (!(d <= off)) off = d; /* NaN too */
    }
    free(want);
    x->error = off / most;
    if (x->error <= tolerance) return 0;
    snprintf(x->failure, sizeof x->failure, "disagrees: %.3g", x->error);
    return -1;
}

static int serve(const char *name, const char *version) {
    static formulation all[MOST_FORMULATIONS];
    const formulation *best = 0;
    char *request = 0;
    size_t room = 0;
    int threads = atoi(getenv("BENCH_PEERS_THREADS") ? getenv("BENCH_PEERS_THREADS") : "1");
    /* What libraries print goes to stderr. */
    FILE *out = fdopen(dup(1), "w");
    dup2(2, 1);
    fprintf(out, "{\"peer\":\"%s\",\"version\":\"%s\"}\n", name, version);
    fflush(out);
    while (getline(&request, &room, stdin) > 0) {
        char op[512];
        text_of(request, "op", op);
        if (!strcmp(op, "time") && best) {
            fprintf(out, "{\"ns\":[");
            spin(best, number_of(request, "seconds", 0.1), out);
            fprintf(out, "]}\n");
        } else if (!strcmp(op, "open")) {
            best = 0;
            failure_text[0] = 0;
            memset(all, 0, sizeof all);
            int n = open_workload(request, threads, all);
            if (n <= 0) {
                if (n == 0)
                    fprintf(out, "{\"unsupported\":true}\n");
                else
                    fprintf(out, "{\"failure\":\"%s\"}\n", failure_text);
                fflush(out);
                continue;
            }
            fprintf(out, "{\"formulations\":[");
            for (int i = 0; i < n; i++) {
                formulation *x = all + i;
                fprintf(out, "%s{\"name\":\"%s\"", i ? "," : "", x->name);
                if (check(x, request, number_of(request, "tolerance", 0))) {
                    fprintf(out, ",\"failure\":\"%s\"}", x->failure);
                    continue;
                }
                spin(x, 0.1, 0);
                x->ns = spin(x, 0.3, 0);
                fprintf(out, ",\"error\":%g,\"ns\":%.0f}", x->error, x->ns);
                if (!best || x->ns < best->ns) best = x;
            }
            if (best)
                fprintf(out, "],\"best\":\"%s\"}\n", best->name);
            else
                fprintf(out, "],\"failure\":\"no formulation runs and agrees\"}\n");
        } else if (!strcmp(op, "close")) {
            best = 0;
            fprintf(out, "{}\n");
        } else {
            fprintf(out, "{\"failure\":\"nothing is open\"}\n");
        }
        fflush(out);
    }
    return 0;
}
