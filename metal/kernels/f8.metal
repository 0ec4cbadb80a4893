// The 8-bit floats, stored as uchar and computed in float: reading is exact, and writing rounds to
// the nearest code, ties to even, clamping to the largest number. Package array defines the codes.

static inline float f8_e4m3_value(uchar x) {
  const uint sign = uint(x & 0x80) << 24;
  const uint b = x & 0x7f;
  if (b == 0x7fu) {
    return as_type<float>(sign | 0x7fc00000u);
  }
  const float v = b < 0x08u ? float(b) * 0.001953125f : as_type<float>((b << 20) + (120u << 23));
  return as_type<float>(sign | as_type<uint>(v));
}

static inline float f8_e5m2_value(uchar x) {
  const uint sign = uint(x & 0x80) << 24;
  const uint b = x & 0x7f;
  if (b >= 0x7cu) {
    return as_type<float>(sign | (b == 0x7cu ? 0x7f800000u : 0x7fc00000u | (b << 21)));
  }
  const float v = b < 0x04u ? float(b) * 0.0000152587890625f : as_type<float>((b << 21) + (112u << 23));
  return as_type<float>(sign | as_type<uint>(v));
}

// The sum with a power of two, whose last bit equals the distance of two subnormal codes, rounds to
// a subnormal code.
static inline uchar f8_e4m3_code(float x) {
  const uint sign = (as_type<uint>(x) >> 24) & 0x80u;
  const uint b = as_type<uint>(x) & 0x7fffffffu;
  if (b > 0x7f800000u) {
    return uchar(sign | 0x7fu);
  }
  if (b >= 0x43e00000u) {
    return uchar(sign | 0x7eu);
  }
  if (b < 0x3c800000u) {
    return uchar(sign | (as_type<uint>(as_type<float>(b) + 16384.0f) - as_type<uint>(16384.0f)));
  }
  return uchar(sign | ((b - (120u << 23) + 0x7ffffu + ((b >> 20) & 1u)) >> 20));
}

static inline uchar f8_e5m2_code(float x) {
  const uint sign = (as_type<uint>(x) >> 24) & 0x80u;
  const uint b = as_type<uint>(x) & 0x7fffffffu;
  if (b > 0x7f800000u) {
    return uchar(sign | 0x7eu);
  }
  if (b >= 0x47600000u) {
    return uchar(sign | 0x7bu);
  }
  if (b < 0x38800000u) {
    return uchar(sign | (as_type<uint>(as_type<float>(b) + 128.0f) - as_type<uint>(128.0f)));
  }
  return uchar(sign | ((b - (112u << 23) + 0xfffffu + ((b >> 21) & 1u)) >> 21));
}
