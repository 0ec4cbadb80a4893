// Operations of simdgroups and atomics. Every CHECK that does not hold adds its line.
#include <metal_stdlib>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
#include <metal_atomic>
using namespace metal;

#define CHECK(...) do { if (!(__VA_ARGS__)) { int n = atomic_fetch_add_explicit(bad, 1, memory_order_relaxed); atomic_store_explicit(bad + 1 + n % 60, __LINE__, memory_order_relaxed); } } while (false)

kernel void simds(device atomic_int* bad [[buffer(0)]], uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
  int v = int(lane) + 1;
  CHECK(simd_sum(v) == 528 && simd_max(v) == 32 && simd_min(v) == 1 && simd_sum(float(v)) == 528.0f && simd_sum(half(1)) == 32.0h);
  CHECK(simd_product(lane < 3 ? v : 1) == 6 && simd_and(v | 64) == 64 && simd_or(v) == 63 && simd_xor(v) == 32);
  CHECK(simd_broadcast(v, 5) == 6 && simd_broadcast_first(v) == 1 && simd_shuffle(v, 31 - lane) == 32 - int(lane));
  CHECK(simd_shuffle_xor(v, 1) == int(lane ^ 1) + 1 && simd_shuffle_down(v, 2) == (lane < 30 ? v + 2 : v) && simd_shuffle_up(v, 3) == (lane >= 3 ? v - 3 : v));
  CHECK(simd_shuffle_rotate_down(v, 1) == int((lane + 1) % 32) + 1 && simd_shuffle_and_fill_up(v, -1, 1) == (lane ? v - 1 : -1));
  CHECK(simd_prefix_exclusive_sum(v) == int(lane * (lane + 1) / 2) && simd_prefix_inclusive_sum(v) == int((lane + 1) * (lane + 2) / 2));
  CHECK((uint)(ulong)simd_ballot(lane % 2 == 0) == 0x55555555u && simd_any(lane == 3) && !simd_any(lane == 40) && simd_all(lane < 32) && !simd_all(lane < 31));
  CHECK(simd_is_first() == (lane == 0) && simd_ballot(true).all() && quad_sum(v) == 4 * int(lane / 4 * 4) + 10 && quad_max(v) == int(lane / 4 * 4) + 4);
  CHECK(all(simd_sum(float2(v, 1)) == float2(528, 32)) && simd_max(simd == 0 ? bfloat(v) : bfloat(-1)) == (simd == 0 ? bfloat(32) : bfloat(-1)));
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

// The last simdgroup has 8 lanes, of which 3 return before; those that are left add up.
kernel void some(device int* y [[buffer(0)]], uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  if (i % 8 >= 5) return;
  y[2 * i] = simd_sum(1);
  y[2 * i + 1] = simd_shuffle(int(i), 7);
}

kernel void atomics(device atomic_uint* count [[buffer(0)]], device atomic_int* least [[buffer(1)]], device atomic_float* sum [[buffer(2)]], device uint* seen [[buffer(3)]],
                    uint i [[thread_position_in_grid]], uint tid [[thread_index_in_threadgroup]]) {
  threadgroup atomic_uint local;
  if (tid == 0) atomic_store_explicit(&local, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&local, 2u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) atomic_fetch_add_explicit(count, atomic_load_explicit(&local, memory_order_relaxed), memory_order_relaxed);
  atomic_fetch_min_explicit(least, int(i) - 7, memory_order_relaxed);
  atomic_fetch_add_explicit(sum, 0.5f, memory_order_relaxed);
  uint old = atomic_fetch_or_explicit(count + 1, 1u << (i % 32), memory_order_relaxed);
  if (!(old >> (i % 32) & 1)) seen[i % 32] = 1;
  uint expected = 0;
  if (atomic_compare_exchange_weak_explicit(count + 2, &expected, 7u, memory_order_relaxed, memory_order_relaxed)) seen[32] = 1;
}

// y = a · b + c of 8x8 tiles: a from rows of ld, b transposed, c halved in the lanes' elements.
template <typename T>
kernel void tiles(device const T* a [[buffer(0)]], device const T* b [[buffer(1)]], device const float* c [[buffer(2)]], device float* y [[buffer(3)]], device T* z [[buffer(4)]],
                  threadgroup T* room [[threadgroup(0)]], uint tid [[thread_index_in_threadgroup]]) {
  simdgroup_matrix<T, 8, 8> ma, mb;
  simdgroup_float8x8 mc, md = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  for (uint i = tid; i < 64; i += 32) room[i] = b[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_load(ma, a, 12, ulong2(2, 1));
  simdgroup_load(mb, room, 8, ulong2(0, 0), true);
  simdgroup_load(mc, c);
  mc.thread_elements() *= 0.5f;
  simdgroup_multiply_accumulate(md, ma, mb, mc);
  simdgroup_store(md, y, 8);
  simdgroup_store(md, y + 64, 8, ulong2(0, 0), true);
  simdgroup_matrix<T, 8, 8> mz(T(3));
  simdgroup_matrix<T, 8, 8> me;
  simdgroup_multiply(me, mz, ma);
  me.thread_elements()[1] = me.thread_elements()[0];
  simdgroup_store(me, z, 8);
}
template [[host_name("tiles_f32")]] [[kernel]] decltype(tiles<float>) tiles<float>;
template [[host_name("tiles_f16")]] [[kernel]] decltype(tiles<half>) tiles<half>;
template [[host_name("tiles_bf16")]] [[kernel]] decltype(tiles<bfloat>) tiles<bfloat>;
