// A rank of JACCL itself, for TestJACCL: the program of program_test.go, in
// C++ over MLX's library. It prints a line per operation with a hash of the result.
//
// Build it against a checkout of MLX 0.32.4 (mlx/distributed/jaccl/lib) with nlohmann-json and
// the headers of rdma-core, and name the program in GOMOE_JACCL_RANK:
//
//	c++ -std=c++20 -O2 -D'__builtin_available(...)=true' -include cstring -I$LIB -I/usr/include/nlohmann -o rank \
//	    rank.cpp $LIB/jaccl/{tcp,rdma,mesh,ring,jaccl}.cpp -ldl -lpthread

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "jaccl/jaccl.h"

static uint32_t mix(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352d, x ^= x >> 15, x *= 0x846ca68b, x ^= x >> 16;
  return x;
}

struct Type { const char* name; int size; int code; };
static const Type types[] = {{"bool", 1, 0}, {"u8", 1, 5}, {"u32", 4, 7}, {"i32", 4, 3}, {"i64", 8, 4},
  {"f16", 2, 9}, {"bf16", 2, 10}, {"f32", 4, 11}, {"f64", 8, 12}};

// element is the bits of element i that rank r contributes to operation k. Small
// integers, whose sums are exact, or numbers of many magnitudes.
static uint64_t element(const std::string& t, int k, int r, int i, bool exact) {
  uint32_t h = mix(uint32_t(i) * 2654435761u + uint32_t(r) * 40503u + uint32_t(k) * 97u + 1);
  int small = int(h % 41) - 20;
  uint32_t sign = h >> 31;
  if (t == "bool") return h & 1;
  if (t == "f32" || t == "bf16") {
    float x = float(small);
    uint32_t b;
    if (exact) memcpy(&b, &x, 4);
    else b = sign << 31 | (120 + (h >> 8) % 12) << 23 | (mix(h) & 0x7fffff);
    return t == "f32" ? b : b >> 16;
  }
  if (t == "f64") {
    double x = exact ? small : ldexp(double(int(h >> 4)), int(h % 13) - 30);
    uint64_t b;
    memcpy(&b, &x, 8);
    return b;
  }
  if (t == "f16") {
    if (!exact) return sign << 15 | (10 + (h >> 16) % 10) << 10 | (h & 0x3ff);
    if (small == 0) return 0;
    int a = std::abs(small), e = 0;
    while (a >> (e + 1)) e++;
    return (small < 0 ? 0x8000 : 0) | (15 + e) << 10 | (a << (10 - e) & 0x3ff);
  }
  return uint64_t(h) | uint64_t(mix(h)) << 32;
}

static std::vector<char> input(const Type& t, int k, int r, size_t count, bool exact) {
  std::vector<char> b(count * t.size);
  for (size_t i = 0; i < count; i++) {
    uint64_t x = element(t.name, k, r, int(i), exact);
    memcpy(&b[i * t.size], &x, t.size);
  }
  return b;
}

static void print(int k, const char* op, const Type& t, size_t count, const std::vector<char>& b) {
  uint64_t h = 14695981039346656037u;
  for (unsigned char c : b) h = (h ^ c) * 1099511628211u;
  printf("%d %s %s %zu %016llx\n", k, op, t.name, count, (unsigned long long)h);
}

int main() {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  auto g = jaccl::init(true);
  const int n = g->size(), r = g->rank();
  const size_t bytes[] = {8, 4096, 5000, 32768, 32776, 100008, 600008};
  std::vector<float> known(600000); // the check with which Go's ranks begin
  for (size_t i = 0; i < known.size(); i++) known[i] = float(i);
  g->all_sum(known.data(), known.data(), known.size() * 4, 11);
  int k = 0;
  for (const Type& t : types)
    for (size_t size : bytes) {
      if (size > 40000 && t.code != 10 && t.code != 11) continue;
      size_t count = size / t.size;
      bool exact = size > 32768 && n > 2;
      auto in = input(t, k, r, count, exact);
      std::vector<char> out(in.size());
      g->all_sum(in.data(), out.data(), in.size(), t.code), print(k++, "all_sum", t, count, out);
      in = input(t, k, r, count, exact), g->all_sum(in.data(), in.data(), in.size(), t.code), print(k++, "all_sum_in_place", t, count, in);
      in = input(t, k, r, count, exact), g->all_max(in.data(), out.data(), in.size(), t.code), print(k++, "all_max", t, count, out);
      in = input(t, k, r, count, exact), g->all_min(in.data(), out.data(), in.size(), t.code), print(k++, "all_min", t, count, out);
      in = input(t, k, r, count * n, true), g->sum_scatter(in.data(), out.data(), out.size(), t.code), print(k++, "reduce_scatter", t, count, out);
      in = input(t, k, r, count, exact), out.resize(in.size() * n), g->all_gather(in.data(), out.data(), in.size()), print(k++, "all_gather", t, count, out);
      if (size == 5000 || size == 600008) {
        for (int from = 0; from < n; from++) {
          int to = (from + 1) % n;
          in = input(t, k, from, count, exact), out.assign(in.size(), 0);
          if (r == from) g->send(in.data(), in.size(), to);
          if (r == to) g->recv(out.data(), out.size(), from);
          print(k++, "pass", t, count, r == to ? out : std::vector<char>{});
        }
      }
      g->barrier();
    }
}
