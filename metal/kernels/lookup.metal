// Elements named by indices.
#include "common.metal"

// look_up writes, for rows of p[0] elements, the elements at indices along an axis of p[1] to results of
// p[2] of them; p[3] is the number of elements of the result. An index out of range gives 0.
template <typename T>
kernel void look_up(device const T* table [[buffer(0)]],
                    device const int* indices [[buffer(1)]],
                    device T* y [[buffer(2)]],
                    constant int* p [[buffer(3)]],
                    uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[3]) {
    int column = i % p[0];
    int row = i / p[0];
    int index = indices[row % p[2]];
    bool in_range = index >= 0 && index < p[1];
    y[i] = in_range ? table[(row / p[2] * p[1] + index) * p[0] + column] : T(0);
  }
}

// look_up_part is look_up in a table of which the rank has p[1] rows, from row p[4] on. Rows of other
// ranks give -0.
template <typename T>
kernel void look_up_part(device const T* table [[buffer(0)]],
                         device const int* indices [[buffer(1)]],
                         device T* y [[buffer(2)]],
                         constant int* p [[buffer(3)]],
                         uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[3]) {
    int index = indices[i / p[0]] - p[4];
    bool here = index >= 0 && index < p[1];
    y[i] = here ? table[index * p[0] + i % p[0]] : T(1) << (8 * sizeof(T) - 1);
  }
}

// take_along is look_up with an index per element.
template <typename T>
kernel void take_along(device const T* x [[buffer(0)]],
                       device const int* indices [[buffer(1)]],
                       device T* y [[buffer(2)]],
                       constant int* p [[buffer(3)]],
                       uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[3]) {
    int column = i % p[0];
    int row = i / p[0];
    int index = indices[i];
    bool in_range = index >= 0 && index < p[1];
    y[i] = in_range ? x[(row / p[2] * p[1] + index) * p[0] + column] : T(0);
  }
}

// indicate writes the bits p[2] where index i of p[0] classes equals the element, and 0 elsewhere; p[1]
// is the number of elements.
template <typename T>
kernel void indicate(device const int* indices [[buffer(0)]],
                     device T* y [[buffer(1)]],
                     constant int* p [[buffer(2)]],
                     uint gid [[thread_position_in_grid]]) {
  int i = int(gid);
  if (i < p[1]) {
    y[i] = indices[i / p[0]] == i % p[0] ? T(p[2]) : T(0);
  }
}

#define LOOKUPS(size, type)                                                          \
  template [[host_name("look_up_" #size)]] kernel decltype(look_up<type>) look_up<type>; \
  template [[host_name("look_up_part_" #size)]] kernel decltype(look_up_part<type>) look_up_part<type>; \
  template [[host_name("take_along_" #size)]] kernel decltype(take_along<type>) take_along<type>;

LOOKUPS(1, uchar)
LOOKUPS(2, ushort)
LOOKUPS(4, uint)
LOOKUPS(8, ulong)

template [[host_name("indicate_1")]] kernel decltype(indicate<uchar>) indicate<uchar>;
template [[host_name("indicate_2")]] kernel decltype(indicate<ushort>) indicate<ushort>;
template [[host_name("indicate_4")]] kernel decltype(indicate<uint>) indicate<uint>;
