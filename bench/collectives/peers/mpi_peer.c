/* Times MPI's collectives as gomoe bench collectives does, and prints a row of JSON
 * for each operation and size: mpi_peer NAME MIN MAX FACTOR BATCHES SECONDS OP... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static float *src, *dst;

static void step(const char *op, size_t bytes) {
    size_t part = bytes / size / 4;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (!strcmp(op, "all_sum")) MPI_Allreduce(src, dst, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(op, "all_gather")) MPI_Allgather(src, part, MPI_FLOAT, dst, part, MPI_FLOAT, MPI_COMM_WORLD);
    else if (!strcmp(op, "reduce_scatter")) MPI_Reduce_scatter_block(src, dst, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(op, "all_to_all")) MPI_Alltoall(src, part, MPI_FLOAT, dst, part, MPI_FLOAT, MPI_COMM_WORLD);
    else if (!strcmp(op, "broadcast")) MPI_Bcast(dst, bytes / 4, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (!strcmp(op, "send_recv"))
        MPI_Sendrecv(src, bytes / 4, MPI_FLOAT, next, 0, dst, bytes / 4, MPI_FLOAT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Barrier(MPI_COMM_WORLD);
}

static double slowest(double s) {
    double m;
    MPI_Allreduce(&s, &m, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return m;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double bus(const char *op) {
    double share = (size - 1) / (double)size;
    if (!strcmp(op, "all_sum")) return 2 * share;
    if (!strcmp(op, "broadcast") || !strcmp(op, "send_recv")) return 1;
    return share;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 8) return 2;
    size_t min = strtoull(argv[2], 0, 10), max = strtoull(argv[3], 0, 10), factor = strtoull(argv[4], 0, 10);
    int batches = atoi(argv[5]);
    double seconds = atof(argv[6]), *times = malloc(batches * sizeof *times);
    src = malloc(max + 64);
    dst = malloc(max + 64);
    if (!src || !dst) return 3;
    /* Memory that was only read is one page of zeros, which stays in the first cache. */
    for (size_t i = 0; i < max / 4 + 16; i++) src[i] = dst[i] = rank + 1;
    for (int a = 7; a < argc; a++) {
        const char *op = argv[a];
        int barrier = !strcmp(op, "barrier"), whole = !strcmp(op, "all_sum") || !strcmp(op, "broadcast") || !strcmp(op, "send_recv");
        for (size_t s = min; s <= max; s *= factor) {
            size_t bytes = s / 4 * 4;
            if (!whole) {
                size_t part = s / size / 4 * 4;
                bytes = (part < 4 ? 4 : part) * size;
            }
            for (int i = 0; i < 2; i++) step(op, bytes);
            double began = MPI_Wtime();
            step(op, bytes);
            double one = slowest(MPI_Wtime() - began);
            int calls = seconds / one < 1 ? 1 : seconds / one > 10000 ? 10000 : (int)(seconds / one);
            for (int b = 0; b < batches; b++) {
                MPI_Barrier(MPI_COMM_WORLD);
                began = MPI_Wtime();
                for (int i = 0; i < calls; i++) step(op, bytes);
                times[b] = slowest((MPI_Wtime() - began) / calls);
            }
            qsort(times, batches, sizeof *times, ascending);
            double median = times[batches / 2], alg = barrier ? 0 : bytes / median / 1e9;
            if (rank == 0)
                printf("{\"transport\":\"%s\",\"op\":\"%s\",\"ranks\":%d,\"bytes\":%zu,\"calls\":%d,\"us\":%g,\"us_min\":%g,\"alg_gbs\":%g,\"bus_gbs\":%g}\n",
                       argv[1], op, size, barrier ? 0 : bytes, calls * batches, median * 1e6, times[0] * 1e6, alg, alg * bus(op));
            fflush(stdout);
            if (barrier) break;
        }
    }
    MPI_Finalize();
    return 0;
}
