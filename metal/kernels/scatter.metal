// Adding elements to places named by indices, in the order of the indices.
#include "exact.metal"

// add_rows adds rows of p[1] elements to the places p[0] named by lists, in float: see listed. p[2]
// ends a list.
template <typename T>
kernel void add_rows(device const T* x [[buffer(0)]],
                     device const int* begins [[buffer(1)]],
                     device const int* next [[buffer(2)]],
                     device T* y [[buffer(3)]],
                     constant int* p [[buffer(4)]],
                     uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[0] * p[1]) {
    int column = i % p[1];
    float s = 0.0f;
    for (int k = begins[i / p[1]]; k < p[2]; k = next[k]) {
      s += float(x[k * p[1] + column]);
    }
    y[i] = T(s);
  }
}

// add_lists adds to elements of x, p[0] in all, along an axis of p[1] with a stride of p[2], the
// updates, p[3] along the axis, named by lists. If p[4] is not 0, x counts as zeros.
template <typename T>
kernel void add_lists(device const T* x [[buffer(0)]],
                      device const T* updates [[buffer(1)]],
                      device const int* begins [[buffer(2)]],
                      device const int* next [[buffer(3)]],
                      device T* y [[buffer(4)]],
                      constant int* p [[buffer(5)]],
                      uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[0]) {
    int k = begins[i / p[2] % p[1]];
    T first = p[4] != 0 ? T(0) : x[i];
    if (k < p[3]) {
      int at = i / p[2] / p[1] * p[3] * p[2] + i % p[2];
      float2 s = float2(float(first), 0.0f);
      for (; k < p[3]; k = next[k]) {
        s = pair_add(s, float(updates[at + k * p[2]]));
      }
      first = T(pair_value(s));
    }
    y[i] = first;
  }
}

template <typename T>
kernel void count_lists(device const T* x [[buffer(0)]],
                        device const T* updates [[buffer(1)]],
                        device const int* begins [[buffer(2)]],
                        device const int* next [[buffer(3)]],
                        device T* y [[buffer(4)]],
                        constant int* p [[buffer(5)]],
                        uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[0]) {
    int at = i / p[2] / p[1] * p[3] * p[2] + i % p[2];
    T s = p[4] != 0 ? T(0) : x[i];
    for (int k = begins[i / p[2] % p[1]]; k < p[3]; k = next[k]) {
      s = wrap_add(s, updates[at + k * p[2]]);
    }
    y[i] = s;
  }
}

// clear_sums sets p[0] sums to 0.
kernel void clear_sums(device float* sums [[buffer(0)]], constant int* p [[buffer(1)]], uint gid [[thread_position_in_grid]]) {
  if (int(gid) < p[0]) {
    sums[gid] = 0.0f;
  }
}

// add_along adds the elements of p[0] lines, of p[3] elements each, to the sums named by their
// indices along an axis of p[1] with a stride of p[2]. A line has one thread, which adds in order.
template <typename T>
kernel void add_along(device const T* x [[buffer(0)]],
                      device const int* indices [[buffer(1)]],
                      device float* sums [[buffer(2)]],
                      constant int* p [[buffer(3)]],
                      uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[0]) {
    int from = i / p[2] * p[3] * p[2] + i % p[2];
    int to = i / p[2] * p[1] * p[2] + i % p[2];
    for (int k = 0; k < p[3]; k++, from += p[2]) {
      int place = indices[from];
      if (place >= 0 && place < p[1]) {
        sums[to + place * p[2]] += float(x[from]);
      }
    }
  }
}

// round_sums rounds p[0] sums to a narrower type.
template <typename T>
kernel void round_sums(device const float* sums [[buffer(0)]], device T* y [[buffer(1)]], constant int* p [[buffer(2)]],
                       uint gid [[thread_position_in_grid]]) {
  if (int(gid) < p[0]) {
    y[gid] = T(sums[gid]);
  }
}

template [[host_name("round_sums_bf16")]] kernel decltype(round_sums<bfloat>) round_sums<bfloat>;
template [[host_name("round_sums_f16")]] kernel decltype(round_sums<half>) round_sums<half>;

#define ADD(name, T)                                                                      \
  template [[host_name("add_rows_" name)]] kernel decltype(add_rows<T>) add_rows<T>;         \
  template [[host_name("add_lists_" name)]] kernel decltype(add_lists<T>) add_lists<T>;      \
  template [[host_name("add_along_" name)]] kernel decltype(add_along<T>) add_along<T>;

ADD("f32", float)
ADD("bf16", bfloat)
ADD("f16", half)
template [[host_name("add_lists_i32")]] kernel decltype(count_lists<int>) count_lists<int>;
template [[host_name("add_lists_u32")]] kernel decltype(count_lists<uint>) count_lists<uint>;
template [[host_name("add_lists_u8")]] kernel decltype(count_lists<uchar>) count_lists<uchar>;
