/* Loaded before PyTorch: MKL asks this before it uses AVX-512, and by itself
 * says no on processors that are not Intel's. */
int mkl_serv_intel_cpu_true(void) { return 1; }
