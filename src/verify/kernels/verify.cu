// Fill and check kernels: the closed forms of ../scheme.rs and the loops of ../host.rs, in the same order and with
// the same names. Compiles with NVRTC alone (ci/ptx.sh) and, for the test that compares bits, with a C++ compiler.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef __CUDACC_RTC__
#define FN __device__ __forceinline__
#define FN_MEMBER __device__ __forceinline__
#define OUTLINE static __device__ __noinline__
#define UNROLL(n) _Pragma(UNROLL_TEXT(unroll n))
#define UNROLL_TEXT(text) #text
#else
#include <cstring>
#define FN static inline
#define FN_MEMBER inline
#define OUTLINE static
#define UNROLL(n)
#endif

enum { COPY, BOUNDED, LINEAR, POWER, SIGNS, EXTREME, AVERAGE };
enum { INPUT, REDUCED, COPIED };

// As in ../spec.rs, which documents the fields.
struct Spec {
  u64 seed, repetition, magic, drift, age, payload, factor, exponent, scalar_a, scalar_b, base[8], lead[8];
  u32 kind, width, ranks, stride, wander, digit_last, digit_bits, digit_flip, mantissa, exponent_shift;
  u32 exponent_mask, scale, is_signed, is_float, two, reserved;
};
struct RunSpec {
  u64 count, origin, first, first_step, block, block_magic;
  u32 what, rank, rank_step, reserved;
};

struct Pair { u64 a, b; };
struct Division { u64 quotient, remainder; };
struct Place { u32 phase, q; };

// What an element is computed in: 32 bits where it fits, since a GPU has no wider registers.
template <u32 WIDTH> struct Lane { typedef u32 type; };
template <> struct Lane<64> { typedef u64 type; };
#define LANE typename Lane<WIDTH>::type
template <class T> struct Both { T a, b; };

// The constants, the same again where each thread may read another entry of their tables, and the powers of the
// generator of POWER where somebody has made a table of them, their low bytes by themselves.
enum { POWERS = 256 };
struct Powers { u64 whole[POWERS]; u8 low[POWERS]; };
struct Form { const Spec &s, &tables; const Powers *powers; bool has_powers; };

// ---- bits of the machine

#ifdef __CUDACC_RTC__
FN u64 high_product(u64 a, u64 b) { return __umul64hi(a, b); }
FN u32 lowest_bit(u64 x) { return __ffsll((long long)x) - 1; }
FN u32 highest_bit(u64 x) { return 63 - __clzll((long long)x); }
FN u32 bits_set(u64 x) { return __popcll(x); }
FN u32 bits_of(float x) { return __float_as_uint(x); }
FN u64 count_up(u64 *count) { return atomicAdd(count, 1ull); }
FN float float_of(u32 x) { return __uint_as_float(x); }
FN u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
FN double double_of(u64 x) { return __longlong_as_double((long long)x); }
FN u32 picked(u32 a, u32 b, u32 picks) {
  u32 bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(picks));
  return bytes;
}
#else
FN u64 high_product(u64 a, u64 b) { return (u64)(((unsigned __int128)a * b) >> 64); }
FN u32 lowest_bit(u64 x) { return __builtin_ctzll(x); }
FN u32 highest_bit(u64 x) { return 63 - __builtin_clzll(x); }
FN u32 bits_set(u64 x) { return __builtin_popcountll(x); }
FN u32 bits_of(float x) { u32 y; memcpy(&y, &x, 4); return y; }
FN u64 count_up(u64 *count) { return (*count)++; }
FN float float_of(u32 x) { float y; memcpy(&y, &x, 4); return y; }
FN u64 bits_of(double x) { u64 y; memcpy(&y, &x, 8); return y; }
FN double double_of(u64 x) { double y; memcpy(&y, &x, 8); return y; }
// One byte for each of the low four nibbles of `picks`: 0 to 3 a byte of `a`, 4 to 7 one of `b`; with 8 added, that
// byte's top bit eight times.
FN u32 picked(u32 a, u32 b, u32 picks) {
  u32 bytes = 0;
  for (u32 i = 0; i < 4; i++) {
    u32 nibble = (picks >> (4 * i)) & 15, byte = (((u64)b << 32 | a) >> (8 * (nibble & 7))) & 0xff;
    bytes |= (nibble < 8 ? byte : byte >> 7 ? 0xff : 0) << (8 * i);
  }
  return bytes;
}
#endif

// ---- several elements in 32 bits

// The same number of `BITS` bits, 8 or 16, again and again; and the top bit of each.
template <u32 BITS> FN u32 in_lanes(u32 x) { return x * (~0u / ((1u << BITS) - 1)); }
template <u32 BITS> FN u32 tops() { return in_lanes<BITS>(1u << (BITS - 1)); }

// Bits `at` and following of `sg`, each as the top bit of a lane.
template <u32 BITS> FN u32 tops_of(u32 sg, u32 at) {
  return (((sg >> at) & ((1u << (32 / BITS)) - 1)) * (BITS == 8 ? 0x10204080u : 0x40008000u)) & tops<BITS>();
}

// The bytes of a table of eight that four bytes below 8 tell.
FN u32 looked_up(u64 table, u32 indices) {
  return picked((u32)table, (u32)(table >> 32), picked(indices | indices >> 4, 0, 0x20));
}

// ---- scheme.rs

FN u64 mix_step(u64 state, u64 part) {
  state = (state ^ part) * 0xbf58476d1ce4e5b9ull;
  state = (state ^ (state >> 29)) * 0x94d049bb133111ebull;
  return state ^ (state >> 32);
}

FN u64 stream_seed(const Spec &s, u32 source) {
  return mix_step(mix_step(mix_step(0x243f6a8885a308d3ull, s.seed), source), 3);
}

FN u64 golden(u64 k) { return k * 0x9e3779b97f4a7c15ull; }

// Of the word whose number times the golden ratio is `multiple`.
FN u64 hash(u64 seed, u64 multiple) {
  u64 state = multiple + seed;
  state = (state ^ (state >> 32)) * 0xd6e8feb86659fd93ull;
  state = (state ^ (state >> 29)) * 0x94d049bb133111ebull;
  return state ^ (state >> 32);
}

FN u32 signs(const Spec &s, u64 multiple) {
  u32 signs = (u32)(multiple >> 56) ^ (0 - (u32)(s.repetition & 1));
  return s.is_signed ? signs : 0;
}

FN Division divide(u64 value, u64 divisor, u64 magic) {
  u64 quotient = high_product(value, magic), remainder = value - quotient * divisor;
  if (remainder >= divisor) return Division{quotient + 1, remainder - divisor};
  return Division{quotient, remainder};
}

FN Place place_at(const Spec &s, u32 rank, u64 index) {
  u64 n = s.ranks;
  Division lap = divide((u64)s.stride * (index + s.drift), n, s.magic);
  u64 back = s.wander ? divide(lap.quotient, n, s.magic).remainder : 0;
  u64 q = divide(rank + n - lap.remainder + back, n, s.magic).remainder;
  return Place{(u32)lap.remainder, (u32)q};
}

// How far `elements` elements move a place, but for the lap that `moved` may add.
FN Place jump_of(const Spec &s, u64 elements) {
  u64 n = s.ranks;
  Division lap = divide((u64)s.stride * divide(elements, n, s.magic).remainder, n, s.magic);
  u64 laps = divide((u64)s.stride * divide(elements, n, s.magic).quotient + lap.quotient, n, s.magic).remainder;
  u64 q = divide(n - lap.remainder + (s.wander ? laps : 0), n, s.magic).remainder;
  return Place{(u32)lap.remainder, (u32)q};
}

// Only in these forms does a window have another width than one rank, or fall back.
template <u32 KIND> FN bool has_windows() { return KIND == BOUNDED || KIND == AVERAGE; }

template <u32 KIND> FN void move(const Spec &s, Place &place, const Place &jump) {
  u32 q = place.q + jump.q;
  if (has_windows<KIND>()) {
    place.phase += jump.phase;
    if (place.phase >= s.ranks) {
      place.phase -= s.ranks;
      q += s.wander;
    }
  }
  place.q = q >= s.ranks ? q - s.ranks : q;
}

template <u32 WIDTH> FN LANE encode(const Spec &s, LANE value, LANE slice, u32 negative) {
  LANE bits;
  if (!s.is_float) return negative ? 0 - value : value;
  if (WIDTH == 64) bits = (LANE)bits_of((double)value);
  else bits = (LANE)bits_of((float)(u32)value) >> (23 - s.mantissa);
  LANE exponent = (slice >> s.exponent_shift) & s.exponent_mask;
  return (bits + (exponent << s.mantissa) + (LANE)s.exponent) | ((LANE)negative << (WIDTH - 1));
}

// A small integer as a narrow float with `lowest` for the exponent's bits.
FN u32 small_float(const Spec &s, u32 value, u32 lowest) { return (bits_of((float)value) >> (23 - s.mantissa)) + lowest; }

// The bits of an FP8 for each of eight integers from `first` on, a byte each.
FN u64 small_floats(const Spec &s, u32 first, u32 lowest) {
  u64 table = 0;
  UNROLL(8)
  for (u32 value = 0; value < 8; value++) table |= (u64)(small_float(s, first + value, lowest) & 0xff) << (8 * value);
  return table;
}

// Values of a bounded form, side by side, with the exponents that `slices` choose and the signs `tops`: no element carries
// into its neighbour, since all values are normal and finite. 0 where no bit of `contributes` is set.
template <u32 WIDTH> FN u32 dressed(const Spec &s, bool is_float, u32 values, u32 contributes, u32 slices, u32 tops) {
  if (is_float) {
    u32 exponents = (slices >> (s.exponent_shift - s.mantissa)) & in_lanes<WIDTH>(s.exponent_mask << s.mantissa);
    return ((values + exponents) | tops) & contributes;
  }
  u32 negative = picked(tops, 0, WIDTH == 8 ? 0xba98 : 0xbb99) & contributes;
  return ((values & contributes) ^ negative) + (negative & in_lanes<WIDTH>(1));
}

FN u64 power(const Spec &s, u32 exponent) {
  u64 product = 1;
  UNROLL(8)
  for (int bit = 0; bit < 8; bit++)
    if ((exponent >> bit) & 1) product *= s.lead[bit];
  return product;
}

template <u32 WIDTH> FN LANE power_result(const Spec &s, LANE slice) {
  return (slice << 3) + ((LANE)s.repetition << 2) + 3;
}

template <u32 WIDTH> FN LANE signs_lead(const Spec &s, LANE slice) {
  LANE exponent = (slice >> s.exponent_shift) & s.exponent_mask;
  return (LANE)s.exponent + (exponent << s.mantissa) + ((slice & (LANE)s.payload) | 1);
}

FN u32 narrow(const Spec &s, float value) {
  u32 bits = bits_of(value), drop = 23 - s.mantissa;
  if (drop == 0) return bits;
  u32 rounded = (bits + (1u << (drop - 1)) - 1 + ((bits >> drop) & 1)) >> drop;
  return s.mantissa == 10 ? rounded - (112 << 10) : rounded;
}

template <u32 WIDTH> FN Both<LANE> average(const Spec &s, LANE slice) {
  LANE fraction = slice & (LANE)s.payload;
  if (WIDTH == 8) {
    u32 shift = 8 * (u32)fraction;
    return Both<LANE>{(LANE)((s.scalar_a >> shift) & 0xff), (LANE)((s.scalar_b >> shift) & 0xff)};
  }
  LANE doubled = (LANE)(s.stride - 1) << s.mantissa, bits = (LANE)s.exponent | fraction;
  if (WIDTH == 64) {
    LANE average = (LANE)bits_of(double_of(bits) * double_of(s.scalar_a)) + doubled;
    return Both<LANE>{average, average};
  }
  u32 rebase = s.mantissa == 10 ? 112u << 10 : 0;
  float value = float_of(((u32)bits + rebase) << (23 - s.mantissa));
  return Both<LANE>{narrow(s, value * float_of((u32)s.scalar_a)) + doubled,
                    narrow(s, value * float_of((u32)s.scalar_b)) + doubled};
}

// Two floats of `mantissa` fraction bits, which both are normal, rounded and side by side. Adding what is 2^drop times a
// float's power of two leaves it no more bits than that.
FN u32 narrow_pair(u32 mantissa, float low, float high) {
  u32 drop = 23 - mantissa;
  float scale = float_of((127 + drop) << 23);
  float to_low = float_of(bits_of(low) & 0xff << 23) * scale, to_high = float_of(bits_of(high) & 0xff << 23) * scale;
  u32 low_bits = bits_of(low + to_low - to_low) >> drop, high_bits = bits_of(high + to_high - to_high) >> drop;
  return picked(low_bits, high_bits, 0x5410);
}

// `average` of all elements of 32 bits. A half's bits are taken as a float's, which is 2^-112 times as much; 16 bits
// of a product are its bits as a half.
template <u32 WIDTH> FN Both<u32> averages(const Spec &s, u32 slices, u32 signs) {
  u32 fractions = slices & in_lanes<WIDTH>((u32)s.payload);
  if (WIDTH == 8) return Both<u32>{looked_up(s.scalar_a, fractions) | signs, looked_up(s.scalar_b, fractions) | signs};
  u32 bits = fractions | in_lanes<WIDTH>((u32)s.exponent), shift = 23 - s.mantissa;
  u32 doubled = in_lanes<WIDTH>((s.stride - 1) << s.mantissa);
  float low = float_of((bits & 0xffff) << shift), high = float_of((bits >> 16) << shift);
  float a = float_of((u32)s.scalar_a), b = float_of((u32)s.scalar_b);
  return Both<u32>{(narrow_pair(s.mantissa, low * a, high * a) + doubled) | signs,
                   (narrow_pair(s.mantissa, low * b, high * b) + doubled) | signs};
}

template <u32 KIND, u32 WIDTH> FN Both<LANE> result(const Form &f, u32 index, LANE slice, u32 negative) {
  const Spec &s = f.s;
  u32 digit = index & s.digit_last;
  LANE bits = 0, payload = (slice + (LANE)s.age) & (LANE)s.payload;
  if (KIND == BOUNDED) bits = encode<WIDTH>(s, (LANE)f.tables.base[digit] + payload, slice, negative);
  if (KIND == LINEAR) bits = ((LANE)f.tables.base[digit] + (slice << 1)) << s.scale;
  if (KIND == POWER) bits = power_result<WIDTH>(s, slice);
  if (KIND == SIGNS) bits = (signs_lead<WIDTH>(s, slice) + (LANE)s.base[1]) | (LANE)s.base[2];
  if (KIND == EXTREME) bits = (payload + (LANE)s.base[0]) ^ (LANE)s.base[1];
  if (KIND == AVERAGE) {
    LANE sign = (LANE)negative << (WIDTH - 1);
    Both<LANE> legal = average<WIDTH>(s, slice);
    return Both<LANE>{legal.a | sign, legal.b | sign};
  }
  return Both<LANE>{bits, bits};
}

FN u32 digit_of(const Spec &s, u32 number, u32 digit) {
  return (number >> (s.digit_bits * digit)) & ((1u << s.digit_bits) - 1);
}

template <u32 KIND, u32 WIDTH>
FN LANE contribution(const Form &f, u32 rank, u32 q, u32 index, LANE slice, u32 negative) {
  const Spec &s = f.s;
  u32 digit = index & s.digit_last;
  LANE n = s.ranks, t = (LANE)s.repetition;
  bool scaled = (rank + (u32)s.repetition) & 1;
  if (KIND == BOUNDED) {
    LANE value = 1 + (LANE)(digit_of(s, q, digit) ^ s.digit_flip);
    if (q == 0) value += (LANE)f.tables.lead[digit] + ((slice + (LANE)s.age) & (LANE)s.payload);
    LANE bits = encode<WIDTH>(s, value * (LANE)s.factor, slice, negative);
    if (scaled) bits -= (LANE)s.scale << s.mantissa;
    return q < s.stride ? bits : 0;
  }
  if (KIND == LINEAR) {
    LANE half = slice + digit_of(s, rank, digit) + t;
    if (q == 0) half += slice * (1 - n) + (LANE)s.lead[0];
    LANE value = 2 * half + 1;
    return scaled ? value : value << s.scale;
  }
  if (KIND == POWER) {
    u32 own = 1 + 2 * ((u32)slice + digit_of(s, rank, digit) + (u32)t);
    u32 all = (u32)f.tables.base[digit] + (u32)slice * (2 * (u32)n);
    u32 exponent = (q == 0 ? own - all : own) % POWERS;
    LANE raised = (LANE)(f.has_powers ? f.powers->whole[exponent] : power(s, exponent));
    return q == 0 ? power_result<WIDTH>(s, slice) * raised : raised;
  }
  if (KIND == SIGNS) {
    LANE one = (LANE)1 << s.mantissa, magnitude = (LANE)s.base[0];
    if (q == 0) magnitude = signs_lead<WIDTH>(s, slice);
    if (q == 1) magnitude += one;
    if (q == 2) magnitude -= one;
    return magnitude | ((LANE)1 << (WIDTH - 1));
  }
  if (KIND == EXTREME) {
    LANE low = slice ^ (LANE)(rank * 0x9e3779b97f4a7c15ull) ^ (t * 5);
    LANE loser = ((low & (LANE)s.payload) + (LANE)s.base[2]) ^ (LANE)s.base[1];
    return q == 0 ? result<KIND, WIDTH>(f, index, slice, 0).a : loser;
  }
  LANE bits = (LANE)s.exponent | (slice & (LANE)s.payload) | ((LANE)negative << (WIDTH - 1));
  return q < s.stride ? bits : 0;
}

// Consecutive words of a form, from one on; what `rank` contributes, or the result.
template <u32 KIND, u32 WIDTH, bool INPUT> struct Words {
  enum { PER_WORD = 64 / WIDTH, PER_HALF = WIDTH == 64 ? 1 : 32 / WIDTH };
  Form f;
  u32 rank, index;
  u64 multiple, table;
  Place place, step;

  FN_MEMBER Words(const Form &form, u32 whose, u64 k) : f(form), rank(whose), index((u32)k * PER_WORD), multiple(golden(k)) {
    place = INPUT ? place_at(f.s, rank, k * PER_WORD) : Place{0, 0};
    step = INPUT ? jump_of(f.s, 1) : Place{0, 0};
    if (KIND == BOUNDED && WIDTH == 8 && !INPUT) table = small_floats(f.s, (u32)f.tables.base[0], (u32)f.s.exponent);
  }

  FN_MEMBER Both<LANE> element(u32 at, LANE slice, u32 sign) {
    if (!INPUT) return result<KIND, WIDTH>(f, index + at, slice, sign);
    LANE bits = contribution<KIND, WIDTH>(f, rank, place.q, index + at, slice, sign);
    move<KIND>(f.s, place, step);
    return Both<LANE>{bits, bits};
  }

  // `half` of the results of a bounded form of small elements. FP8 has no digits and three bits of payload.
  FN_MEMBER u32 small_half(u32 at, u32 h, u32 sg) {
    const Spec &s = f.s;
    const u32 keep = (1u << WIDTH) - 1;
    u32 values = 0, signs = tops_of<WIDTH>(sg, at);
    if (WIDTH == 8 && s.is_float)
      return dressed<WIDTH>(s, true, looked_up(table, h & in_lanes<WIDTH>((u32)s.payload)), ~0u, h, signs);
    UNROLL(4)
    for (u32 e = 0; e < PER_HALF; e++) {
      u32 digit = (index + at + e) & s.digit_last, shift = e * WIDTH;
      u32 value = (u32)f.tables.base[digit] + ((((h >> shift) & keep) + (u32)s.age) & (u32)s.payload);
      values |= ((WIDTH == 16 ? small_float(s, value, (u32)s.exponent) : value) & keep) << shift;
    }
    return dressed<WIDTH>(s, WIDTH == 16, values, ~0u, h, signs);
  }

  // `PER_HALF` elements from the low bits of `h`.
  FN_MEMBER Both<LANE> half(u32 at, LANE h, u32 sg) {
    if constexpr (KIND == BOUNDED && WIDTH <= 16 && !INPUT) {
      LANE bits = (LANE)small_half(at, (u32)h, sg);
      return Both<LANE>{bits, bits};
    }
    if constexpr (KIND == AVERAGE && WIDTH <= 16 && !INPUT) return averages<WIDTH>(f.s, (u32)h, tops_of<WIDTH>(sg, at));
    const LANE keep = ~(LANE)0 >> (8 * sizeof(LANE) - WIDTH);
    Both<LANE> bits = {0, 0};
    UNROLL(4)
    for (u32 e = 0; e < PER_HALF; e++) {
      Both<LANE> one = element(at + e, (h >> (e * WIDTH)) & keep, (sg >> (at + e)) & 1);
      bits.a |= (one.a & keep) << (e * WIDTH);
      bits.b |= (one.b & keep) << (e * WIDTH);
    }
    return bits;
  }

  FN_MEMBER Pair next() {
    u64 h = hash(f.s.seed, multiple);
    u32 sg = signs(f.s, multiple);
    Both<LANE> low = half(0, (LANE)h, sg);
    Pair word = {low.a, low.b};
    if (WIDTH < 64) {
      Both<LANE> high = half(PER_HALF, (LANE)(h >> 32), sg);
      word.a |= (u64)high.a << 32;
      word.b |= (u64)high.b << 32;
    }
    multiple += golden(1);
    index += PER_WORD;
    return word;
  }

  // Leaves out so many words; `jump` is that of their elements.
  FN_MEMBER void skip(u64 multiples, u32 elements, const Place &jump) {
    multiple += multiples;
    index += elements;
    if (INPUT) move<KIND>(f.s, place, jump);
  }
};

// Where a thread starts: an element, the rank's place there, and how that moves to the next element and to the next 16
// bytes of the thread.
struct Start { u64 index; Place place, step, jump; };

// The places of the elements of 16 bytes, `BITS` bits each, for up to 2^(BITS - 1) ranks. All of them move alike.
template <u32 KIND, u32 WIDTH, u32 BITS> struct Places {
  enum { PER_REGISTER = 32 / BITS, REGISTERS = 128 / WIDTH / PER_REGISTER };
  u32 q[REGISTERS], phase[REGISTERS], ranks, back, q_jump, phase_jump;
  bool laps;

  FN_MEMBER Places(const Spec &s, const Start &start) {
    Place place = start.place;
    UNROLL(8)
    for (u32 r = 0; r < REGISTERS; r++) {
      q[r] = phase[r] = 0;
      UNROLL(4)
      for (u32 e = 0; e < PER_REGISTER; e++) {
        q[r] |= place.q << (e * BITS);
        phase[r] |= place.phase << (e * BITS);
        move<KIND>(s, place, start.step);
      }
    }
    ranks = s.ranks;
    back = in_lanes<BITS>(ranks) - tops<BITS>();
    q_jump = in_lanes<BITS>(start.jump.q) - back;
    phase_jump = in_lanes<BITS>(start.jump.phase) - back;
    // A window of all ranks ends with every lap.
    laps = has_windows<KIND>() && s.wander && s.stride < s.ranks;
  }

  // Of lanes that 2^(BITS - 1) - ranks has been added to, so that the top bit tells which reach `ranks`: takes `ranks`
  // from those, of which it tells, and undoes the addition.
  FN_MEMBER u32 wrapped(u32 lanes, u32 &reached) {
    reached = (lanes & tops<BITS>()) >> (BITS - 1);
    return lanes + back - reached * ranks;
  }

  FN_MEMBER void move_all() {
    u32 lap[REGISTERS] = {}, unused;
    if (laps) {
      UNROLL(8)
      for (u32 r = 0; r < REGISTERS; r++) phase[r] = wrapped(phase[r] + phase_jump, lap[r]);
    }
    UNROLL(8)
    for (u32 r = 0; r < REGISTERS; r++) q[r] = wrapped(q[r] + q_jump + lap[r], unused);
  }

  // All bits of those elements of 4 bytes whose lanes' top bits are set.
  FN_MEMBER static u32 spread(u32 low, u32 high) {
    return WIDTH == BITS ? picked(low, 0, WIDTH == 8 ? 0xba98 : 0xbb99) : picked(low, high, 0xfdb9);
  }
  FN_MEMBER u32 first_of(u32 r) { return WIDTH == BITS ? r : 2 * r; }
  FN_MEMBER u32 last_of(u32 r) { return WIDTH == BITS ? r : 2 * r + 1; }

  // All bits of those elements of 4 bytes, the `r`th of the 16, whose place is `limit` or more; at most 2^(BITS - 1).
  FN_MEMBER u32 at_least(u32 r, u32 limit) {
    u32 missing = tops<BITS>() - in_lanes<BITS>(limit);
    return spread(q[first_of(r)] + missing, q[last_of(r)] + missing);
  }
  // The same of those whose place has the bit of `masks`, one a lane.
  FN_MEMBER u32 with_bit(u32 r, u32 low_mask, u32 high_mask) {
    return spread((q[first_of(r)] & low_mask) + (tops<BITS>() - low_mask),
                  (q[last_of(r)] & high_mask) + (tops<BITS>() - high_mask));
  }
};

// What a rank contributes to 16 bytes of a bounded form of small elements, as `contribution` has it. Floats have neither
// age nor flipped digits nor another lead than the payload; FP8 has no digits and three bits of payload, integers have
// digits of one bit at most.
template <u32 WIDTH, u32 BITS, bool IS_FLOAT> struct SmallInputs {
  enum { PERIOD = 8 * BITS / 32 };
  const Spec &s;
  Places<BOUNDED, WIDTH, BITS> places;
  u32 payload, digit[PERIOD], between, lead[2];
  u64 table;
  float power, below;

  FN_MEMBER SmallInputs(const Form &f, u32 rank, const Start &start) : s(f.s), places(f.s, start) {
    payload = in_lanes<WIDTH>((u32)s.payload);
    u32 scale = (rank + (u32)s.repetition) & 1 ? s.scale : 0;
    if (!IS_FLOAT) prepare_integers(f, (u32)start.index);
    else if (WIDTH == 8) table = small_floats(s, 1, (u32)s.exponent - (scale << s.mantissa));
    else prepare_floats((u32)start.index, (u32)((int)s.exponent >> s.mantissa) - scale);
  }

  // By lane, for the eight elements after which digits come again: the bit of a place that is the digit, or the top bit,
  // which no place has; what the leader adds.
  FN_MEMBER void prepare_integers(const Form &f, u32 index) {
    UNROLL(8)
    for (u32 e = 0; e < 8; e++) {
      u32 shown = (index + e) & s.digit_last, r = e * BITS / 32;
      u32 mask = 1u << (s.digit_bits ? shown : BITS - 1) << (e * BITS % 32);
      digit[r] = e * BITS % 32 ? digit[r] | mask : mask;
      u32 added = (u32)f.tables.lead[shown] << (e * 8 % 32);
      lead[e / 4] = e % 4 ? lead[e / 4] | added : added;
    }
  }
  // `power` is a float whose last bit is worth 1 times the power of two that makes its bits those of the narrow type.
  FN_MEMBER void prepare_floats(u32 index, u32 exponent) {
    power = float_of((150 + exponent) << 23);
    below = power - (float_of(bits_of(power) | 1) - power);
    UNROLL(4)
    for (u32 r = 0; r < PERIOD; r++) digit[r] = s.digit_bits * ((index + 2 * r) & s.digit_last);
    between = s.digit_last ? s.digit_bits : 0;
  }

  // The value of each of 4 bytes' elements, the leaders' with what `slices` add.
  FN_MEMBER u32 values(u32 r, u32 slices) {
    const u32 ones = in_lanes<WIDTH>(1);
    u32 leads = ~places.at_least(r, 1);
    if (!IS_FLOAT) {
      u32 bits = places.with_bit(r, digit[places.first_of(r) % PERIOD], digit[places.last_of(r) % PERIOD]);
      u32 added = ((slices & payload) + in_lanes<WIDTH>((u32)(s.age & s.payload))) & payload;
      return (ones + ((bits & ones) ^ (s.digit_flip * ones)) + ((added + lead[r % 2]) & leads)) * (u32)s.factor;
    }
    u32 added = slices & payload & leads;
    if (WIDTH == 8) return looked_up(table, added);
    u32 q = places.q[r] >> digit[r % PERIOD], mask = (1u << s.digit_bits) - 1;
    u32 integers = ((q & mask) | ((q >> between) & (mask << 16))) + added;
    // Their last bits, below `power`'s, become floats that are right but for a bias of 1.
    u32 low = bits_of(float_of(picked(integers, bits_of(power), 0x7610)) - below);
    u32 high = bits_of(float_of(picked(integers, bits_of(power), 0x7632)) - below);
    return picked(low >> (23 - s.mantissa), high >> (23 - s.mantissa), 0x5410);
  }

  FN_MEMBER u32 four_bytes(u32 r, u32 slices, u32 tops) {
    return dressed<WIDTH>(s, IS_FLOAT, values(r, slices), ~places.at_least(r, s.stride), slices, tops);
  }
};

// The same of POWER of one-byte elements, whose exponents have 6 bits and whose digits come again after four elements.
template <u32 BITS> struct PowerInputs {
  enum { LAST = 63 };
  const Form &f;
  Places<POWER, 8, BITS> places;
  u32 own, lead[4], factor;

  FN_MEMBER PowerInputs(const Form &form, u32 rank, const Start &start) : f(form), places(f.s, start), own(0) {
    factor = 2 - 2 * f.s.ranks;
    UNROLL(4)
    for (u32 e = 0; e < 4; e++) {
      u32 digit = ((u32)start.index + e) & f.s.digit_last;
      u32 exponent = 1 + 2 * (digit_of(f.s, rank, digit) + (u32)f.s.repetition);
      own |= (exponent & LAST) << (8 * e);
      lead[e] = exponent - (u32)f.tables.base[digit];
    }
  }

  FN_MEMBER u32 raised(u32 exponent) { return f.has_powers ? f.powers->low[exponent] : (u32)power(f.s, exponent); }

  // What the leader of each of 4 elements contributes.
  FN_MEMBER u32 leaders(u32 slices) {
    u32 bytes = 0;
    UNROLL(4)
    for (u32 e = 0; e < 4; e++) {
      u32 slice = picked(slices, 0, 0x4440 + e);
      u32 product = power_result<8>(f.s, slice) * raised((lead[e] + slice * factor) & LAST);
      bytes |= (product & 0xff) << (8 * e);
    }
    return bytes;
  }

  FN_MEMBER u32 four_bytes(u32 r, u32 slices, u32) {
    u32 exponents = (((slices & in_lanes<8>(LAST / 2)) << 1) + own) & in_lanes<8>(LAST), bytes = 0;
    UNROLL(4)
    for (u32 e = 0; e < 4; e++) bytes |= (raised(picked(exponents, 0, 0x4440 + e)) & 0xff) << (8 * e);
    u32 follow = places.at_least(r, 1);
    return follow == ~0u ? bytes : (bytes & follow) | (leaders(slices) & ~follow);
  }
};

// The same of LINEAR of one-byte elements, whose sums wrap; all ranks have at most three digits.
template <u32 BITS> struct LinearInputs {
  Places<LINEAR, 8, BITS> places;
  u32 own, lead, keep, shift, last, factor;

  FN_MEMBER LinearInputs(const Form &f, u32 rank, const Start &start) : places(f.s, start), own(0) {
    const Spec &s = f.s;
    shift = 1 + ((rank + (u32)s.repetition) & 1 ? 0 : s.scale);
    keep = in_lanes<8>(0xff >> shift);
    last = in_lanes<8>(1u << (shift - 1));
    UNROLL(4)
    for (u32 e = 0; e < 4; e++) {
      u32 digit = ((u32)start.index + e) & s.digit_last;
      own |= ((digit_of(s, rank, digit) + (u32)s.repetition) & 0xff >> shift) << (8 * e);
    }
    lead = in_lanes<8>((u32)s.lead[0] & 0xff >> shift);
    factor = (1 - s.ranks) & 0x7f;
  }

  FN_MEMBER u32 four_bytes(u32 r, u32 slices, u32) {
    u32 even = (slices & 0xff00ff) * factor, odd = (slices >> 8 & 0xff00ff) * factor;
    u32 more = ((picked(even, odd, 0x6240) & keep) + lead) & keep & ~places.at_least(r, 1);
    u32 half = (((slices & keep) + own) & keep) + more;
    return (half & keep) << shift | last;
  }
};

// The same of EXTREME of one-byte elements.
template <u32 BITS> struct ExtremeInputs {
  Places<EXTREME, 8, BITS> places;
  u32 payload, age, own, lead, lose, flip;

  FN_MEMBER ExtremeInputs(const Form &f, u32 rank, const Start &start) : places(f.s, start) {
    const Spec &s = f.s;
    payload = in_lanes<8>((u32)s.payload);
    age = in_lanes<8>((u32)(s.age & s.payload));
    own = in_lanes<8>((u32)(rank * 0x9e3779b97f4a7c15ull ^ s.repetition * 5) & 0xff);
    lead = in_lanes<8>((u32)s.base[0]);
    lose = in_lanes<8>((u32)s.base[2]);
    flip = in_lanes<8>((u32)s.base[1] & 0xff);
  }

  FN_MEMBER u32 four_bytes(u32 r, u32 slices, u32) {
    u32 leads = (((slices & payload) + age) & payload) + lead, loses = ((slices ^ own) & payload) + lose;
    u32 follow = places.at_least(r, 1);
    return ((loses & follow) | (leads & ~follow)) ^ flip;
  }
};

// The same of AVERAGE of one- and two-byte elements.
template <u32 WIDTH, u32 BITS> struct AverageInputs {
  Places<AVERAGE, WIDTH, BITS> places;
  u32 payload, exponent, window;

  FN_MEMBER AverageInputs(const Form &f, u32, const Start &start) : places(f.s, start) {
    payload = in_lanes<WIDTH>((u32)f.s.payload);
    exponent = in_lanes<WIDTH>((u32)f.s.exponent);
    window = f.s.stride;
  }

  FN_MEMBER u32 four_bytes(u32 r, u32 slices, u32 tops) {
    return (exponent | (slices & payload) | tops) & ~places.at_least(r, window);
  }
};

template <u32 KIND> FN Pair word_of_kind(const Form &f, bool input, u32 rank, u64 k) {
  switch (f.s.width) {
    case 8: return input ? Words<KIND, 8, true>(f, rank, k).next() : Words<KIND, 8, false>(f, rank, k).next();
    case 16: return input ? Words<KIND, 16, true>(f, rank, k).next() : Words<KIND, 16, false>(f, rank, k).next();
    case 32: return input ? Words<KIND, 32, true>(f, rank, k).next() : Words<KIND, 32, false>(f, rank, k).next();
    default: return input ? Words<KIND, 64, true>(f, rank, k).next() : Words<KIND, 64, false>(f, rank, k).next();
  }
}

// Word `k` of any form and width: one copy for all that is not worth a loop of its own.
OUTLINE Pair any_word(const Spec *s, bool input, u32 rank, u64 k) {
  Form f = {*s, *s, 0, false};
  switch (s->kind) {
    case BOUNDED: return word_of_kind<BOUNDED>(f, input, rank, k);
    case LINEAR: return word_of_kind<LINEAR>(f, input, rank, k);
    case POWER: return word_of_kind<POWER>(f, input, rank, k);
    case SIGNS: return word_of_kind<SIGNS>(f, input, rank, k);
    case EXTREME: return word_of_kind<EXTREME>(f, input, rank, k);
    default: return word_of_kind<AVERAGE>(f, input, rank, k);
  }
}

// ---- host.rs

// Whose stream, its seed, and which element of it; `left` elements follow in the same block.
struct Source { u32 rank; u64 seed, first, left; };

FN Source locate(const Spec &s, const RunSpec &run, u64 index) {
  Division d = {0, index};
  if (run.block <= index) d = divide(index, run.block, run.block_magic);
  u32 rank = run.rank + (u32)d.quotient * run.rank_step;
  u64 seed = run.what == COPIED ? stream_seed(s, rank) : 0;
  return Source{rank, seed, run.first + d.quotient * run.first_step + d.remainder, run.block - d.remainder};
}

// Where single words come from.
struct Streams {
  FN_MEMBER Pair operator()(const Source &from, u64 k) const { u64 h = hash(from.seed, golden(k)); return Pair{h, h}; }
};
struct Any {
  const Spec *s;
  bool input;
  FN_MEMBER Pair operator()(const Source &from, u64 k) const { return any_word(s, input, from.rank, k); }
};

FN u64 load(const u8 *p, u32 width) {
  if (width == 8) return *p;
  if (width == 16) return *(const unsigned short *)p;
  if (width == 32) return *(const u32 *)p;
  return *(const u64 *)p;
}

FN void store(u8 *p, u32 width, u64 bits) {
  if (width == 8) *p = (u8)bits;
  else if (width == 16) *(unsigned short *)p = (unsigned short)bits;
  else if (width == 32) *(u32 *)p = (u32)bits;
  else *(u64 *)p = bits;
}

struct alignas(16) Vector { u64 low, high; };
struct Tally { u64 wrong_a, first_a, last_a, wrong_b, first_b, last_b; };

// What is done with the elements. `element` sees one; `begin`, twice `half`, and `end` see 16 bytes.
struct Fill {
  u8 *buffer;
  u64 flip;
  u32 width;
  FN_MEMBER void element(u64 index, const Pair &p) { store(buffer + index * (width / 8), width, p.a ^ flip); }
  FN_MEMBER Vector begin(u64) { return Vector{0, 0}; }
  FN_MEMBER void half(u64, u64 &bytes, const Pair &p) { bytes = p.a ^ flip; }
  FN_MEMBER void end(u64 index, const Vector &v) { *(Vector *)(buffer + index * (width / 8)) = v; }
};

struct Check {
  const u8 *buffer;
  u64 origin;
  u32 width;
  Tally t;
  // Elements from `index` on, of which `differ` has the bits that are wrong. All of them at once, since a float average
  // may follow one pattern throughout and thus differ from the other everywhere.
  FN_MEMBER void note(u64 index, u64 differ, u64 &wrong, u64 &first, u64 &last) {
    if (!differ) return;
    const u64 of_words = 0x8000000080000000, of_halves = of_words | of_words >> 16, of_bytes = of_halves | of_halves >> 8;
    u64 tops = width == 8 ? of_bytes : width == 16 ? of_halves : width == 32 ? of_words : 1ull << 63;
    u64 flags = (((differ & ~tops) + ~tops) | differ) & tops;
    u32 shift = lowest_bit(width);
    u64 low = origin + index + (lowest_bit(flags) >> shift), high = origin + index + (highest_bit(flags) >> shift);
    wrong += bits_set(flags);
    if (low < first) first = low;
    if (high > last) last = high;
  }
  FN_MEMBER void element(u64 index, const Pair &p) {
    u64 got = load(buffer + index * (width / 8), width);
    half(index, got, p);
  }
  FN_MEMBER Vector begin(u64 index) { return *(const Vector *)(buffer + index * (width / 8)); }
  FN_MEMBER void half(u64 index, u64 &got, const Pair &p) {
    if (got == p.a && got == p.b) return;
    note(index, got ^ p.a, t.wrong_a, t.first_a, t.last_a);
    note(index, got ^ p.b, t.wrong_b, t.first_b, t.last_b);
  }
  FN_MEMBER void end(u64, const Vector &) {}
};

// Lists (index in the run, bits found), in no particular order; counts those beyond the limit too.
struct Collect {
  const u8 *buffer;
  u64 *out, *found;
  u32 limit, pattern_b, width;
  FN_MEMBER void put(u64 index, u64 got, u64 expected) {
    if (got == expected) return;
    u64 at = count_up(found);
    if (at < limit) {
      out[2 * at] = index;
      out[2 * at + 1] = got;
    }
  }
  FN_MEMBER void element(u64 index, const Pair &p) {
    put(index, load(buffer + index * (width / 8), width), pattern_b ? p.b : p.a);
  }
  FN_MEMBER Vector begin(u64 index) { return *(const Vector *)(buffer + index * (width / 8)); }
  FN_MEMBER void half(u64 index, u64 &got, const Pair &p) {
    u64 keep = ~0ull >> (64 - width), expected = pattern_b ? p.b : p.a;
    UNROLL(1)
    for (u32 shift = 0; shift < 64; shift += width) put(index++, (got >> shift) & keep, (expected >> shift) & keep);
  }
  FN_MEMBER void end(u64, const Vector &) {}
};

template <class Word, class Act> FN void one(const Spec &s, const RunSpec &run, const Word &word, Act &act, u64 index) {
  Source from = locate(s, run, index);
  u64 position = from.first * (s.width / 8), keep = ~0ull >> (64 - s.width);
  Pair p = word(from, position >> 3);
  u32 shift = (u32)(position & 7) * 8;
  act.element(index, Pair{(p.a >> shift) & keep, (p.b >> shift) & keep});
}

// 16 aligned bytes of the buffer within one block. In the stream they may start anywhere, so they are made of two
// words or of parts of three.
template <class Word, class Act> FN void vector(const Spec &s, const Source &from, const Word &word, Act &act, u64 index) {
  u64 position = from.first * (s.width / 8), k = position >> 3;
  u32 shift = (u32)(position & 7) * 8, skip = shift != 0;
  Vector v = act.begin(index);
  Pair last = {0, 0};
  UNROLL(1)
  for (u32 i = 0; i < 2 + skip; i++) {
    Pair p = word(from, k + i), joined = p;
    if (skip) joined = Pair{last.a >> shift | p.a << (64 - shift), last.b >> shift | p.b << (64 - shift)};
    last = p;
    if (i < skip) continue;
    u64 bytes = i == skip ? v.low : v.high;
    act.half(index + (i - skip) * (64 / s.width), bytes, joined);
    if (i == skip) v.low = bytes;
    else v.high = bytes;
  }
  act.end(index, v);
}

struct Share { u64 thread, threads; };

// A run in the buffer: single elements before, then 16-byte pieces, single elements behind.
struct Pieces {
  u64 head, vectors, tail, per_vector;
  FN_MEMBER Pieces(const RunSpec &run, const u8 *buffer, u32 width) {
    u64 bytes = width / 8;
    per_vector = 16 / bytes;
    head = ((0 - (u64)buffer) & 15) / bytes;
    if (head > run.count) head = run.count;
    vectors = (run.count - head) / per_vector;
    tail = head + vectors * per_vector;
  }
};

// This thread's share of the single elements, and of the pieces where `all`.
template <class Word, class Act>
FN void walk(const Spec &s, const RunSpec &run, const Word &word, Act &act, bool all, Share share) {
  Pieces p(run, act.buffer, s.width);
  u64 ends = p.head + run.count - p.tail;
  for (u64 v = share.thread; all && v < p.vectors; v += share.threads) {
    u64 index = p.head + v * p.per_vector;
    Source from = locate(s, run, index);
    if (from.left >= p.per_vector) vector(s, from, word, act, index);
    else
      for (u64 e = 0; e < p.per_vector; e++) one(s, run, word, act, index + e);
  }
  for (u64 e = share.thread; e < ends; e += share.threads) one(s, run, word, act, e < p.head ? e : p.tail + e - p.head);
}

// This thread's share of the pieces of a copy. A block's stream is looked for only where a piece leaves the last one.
template <class Act> FN void walk_copy(const Spec &s, const RunSpec &run, Act &act, Share share) {
  Pieces p(run, act.buffer, s.width);
  u64 seed = 0, shifted = 0, end = 0, bytes = s.width / 8;
  for (u64 v = share.thread; v < p.vectors; v += share.threads) {
    u64 index = p.head + v * p.per_vector;
    if (index >= end) {
      Source from = locate(s, run, index);
      seed = from.seed;
      shifted = from.first - index;
      end = from.left > run.count - index ? run.count : index + from.left;
    }
    u64 position = (index + shifted) * bytes;
    if (index + p.per_vector > end) {
      for (u64 e = 0; e < p.per_vector; e++) one(s, run, Streams{}, act, index + e);
    } else if (position & 7) {
      vector(s, Source{0, seed, index + shifted, end - index}, Streams{}, act, index);
    } else {
      u64 multiple = golden(position >> 3);
      Vector v16 = act.begin(index);
      u64 low = hash(seed, multiple), high = hash(seed, multiple + golden(1));
      act.half(index, v16.low, Pair{low, low});
      act.half(index + p.per_vector / 2, v16.high, Pair{high, high});
      act.end(index, v16);
    }
  }
}

// This thread's share of the pieces of an input that `Inputs` makes 16 bytes at a time; the first is `index` of the run.
template <class Inputs, u32 WIDTH, class Act>
FN void walk_packed(const Form &f, const RunSpec &run, const Start &start, u64 index, Act &act, Share share) {
  const u64 per_vector = 128 / WIDTH, step = share.threads * per_vector, end = run.count - (per_vector - 1);
  u64 multiple = golden(start.index / (64 / WIDTH)), multiples = golden(2 * share.threads);
  for (Inputs inputs(f, run.rank, start); index < end; index += step) {
    Pair words[2];
    UNROLL(2)
    for (u32 i = 0; i < 2; i++) {
      u64 h = hash(f.s.seed, multiple + i * golden(1));
      u32 sg = signs(f.s, multiple + i * golden(1));
      u32 low = inputs.four_bytes(2 * i, (u32)h, tops_of<WIDTH>(sg, 0));
      u32 high = inputs.four_bytes(2 * i + 1, (u32)(h >> 32), tops_of<WIDTH>(sg, 32 / WIDTH));
      words[i].a = words[i].b = (u64)high << 32 | low;
    }
    Vector v16 = act.begin(index);
    act.half(index, v16.low, words[0]);
    act.half(index + per_vector / 2, v16.high, words[1]);
    act.end(index, v16);
    inputs.places.move_all();
    multiple += multiples;
  }
}

// Whether it was. Places have as many bits as elements as long as these suffice.
template <u32 KIND, u32 WIDTH, u32 BITS, class Act>
FN bool walked_packed(const Form &f, const RunSpec &run, Act &act, Share share) {
  if (f.s.ranks > 1u << (BITS - 1)) {
    if constexpr (BITS == 8) return walked_packed<KIND, WIDTH, 16>(f, run, act, share);
    return false;
  }
  Pieces p(run, act.buffer, WIDTH);
  const u64 per_vector = 128 / WIDTH;
  if (share.thread >= p.vectors) return true;
  u64 index = p.head + share.thread * per_vector, first = run.first + index;
  Start start = {first, place_at(f.s, run.rank, first), jump_of(f.s, 1), jump_of(f.s, share.threads * per_vector)};
  if constexpr (KIND == POWER) walk_packed<PowerInputs<BITS>, WIDTH>(f, run, start, index, act, share);
  else if constexpr (KIND == LINEAR) walk_packed<LinearInputs<BITS>, WIDTH>(f, run, start, index, act, share);
  else if constexpr (KIND == EXTREME) walk_packed<ExtremeInputs<BITS>, WIDTH>(f, run, start, index, act, share);
  else if constexpr (KIND == AVERAGE) walk_packed<AverageInputs<WIDTH, BITS>, WIDTH>(f, run, start, index, act, share);
  else if (WIDTH == 16 || f.s.is_float) walk_packed<SmallInputs<WIDTH, BITS, true>, WIDTH>(f, run, start, index, act, share);
  else if constexpr (WIDTH == 8) walk_packed<SmallInputs<8, BITS, false>, WIDTH>(f, run, start, index, act, share);
  return true;
}

// This thread's share of the pieces of a form, which start at whole words of it.
template <u32 KIND, u32 WIDTH, bool INPUT, class Act>
FN void walk_form(const Form &f, const RunSpec &run, Act &act, Share share) {
  const bool packed = WIDTH == 8 ? KIND != SIGNS : WIDTH == 16 && (KIND == BOUNDED || KIND == AVERAGE);
  if constexpr (INPUT && packed) {
    if (walked_packed<KIND, WIDTH, WIDTH>(f, run, act, share)) return;
  }
  Pieces p(run, act.buffer, WIDTH);
  const u64 per_vector = 128 / WIDTH;
  u64 index = p.head + share.thread * per_vector, left_out = (share.threads - 1) * per_vector;
  if (share.thread >= p.vectors) return;
  act.width = WIDTH;
  Words<KIND, WIDTH, INPUT> words(f, run.rank, (run.first + index) / (64 / WIDTH));
  Place jump = INPUT ? jump_of(f.s, left_out) : Place{0, 0};
  u64 multiples = golden(2 * (share.threads - 1));
  Vector ahead = act.begin(index);
  for (u64 v = share.thread; v < p.vectors; v += share.threads) {
    // The next piece is read before this one's words are made, so that memory is never waited for.
    Vector v16 = ahead;
    u64 following = index + per_vector + left_out;
    if (v + share.threads < p.vectors) ahead = act.begin(following);
    act.half(index, v16.low, words.next());
    act.half(index + per_vector / 2, v16.high, words.next());
    act.end(index, v16);
    index = following;
    words.skip(multiples, (u32)left_out, jump);
  }
}

template <u32 KIND, bool INPUT, class Act> FN void walk_width(const Form &f, const RunSpec &run, Act &act, Share share) {
  switch (f.s.width) {
    case 8: return walk_form<KIND, 8, INPUT>(f, run, act, share);
    case 16: return walk_form<KIND, 16, INPUT>(f, run, act, share);
    case 32: return walk_form<KIND, 32, INPUT>(f, run, act, share);
    default: return walk_form<KIND, 64, INPUT>(f, run, act, share);
  }
}

template <class Act> FN void visit(const Spec &s, const Spec *shared, const RunSpec &run, Act &act, bool all, Share share) {
  if (run.what == COPIED) walk(s, run, Streams{}, act, all, share);
  else walk(s, run, Any{shared, run.what == INPUT}, act, all, share);
}

// Whether loops of their own serve the pieces of this run: they do where pieces start at whole words of the stream.
FN bool has_loop(const Spec &s, const RunSpec &run, const u8 *buffer) {
  Pieces p(run, buffer, s.width);
  return run.what == COPIED || ((run.first + p.head) * (s.width / 8)) % 8 == 0;
}

#ifdef __CUDACC_RTC__

FN Share this_share() { return Share{(u64)blockIdx.x * blockDim.x + threadIdx.x, (u64)gridDim.x * blockDim.x}; }

// The block's copy of the constants.
#define SHARED_SPEC             \
  __shared__ Spec shared;       \
  if (threadIdx.x == 0) shared = spec; \
  __syncthreads()

// The block's table of powers.
template <u32 KIND> FN const Powers *powers_of(const Spec &spec) {
  if constexpr (KIND == POWER) {
    __shared__ Powers powers;
    for (u32 exponent = threadIdx.x; exponent < POWERS; exponent += blockDim.x)
      powers.low[exponent] = (u8)(powers.whole[exponent] = power(spec, exponent));
    __syncthreads();
    return &powers;
  }
  return 0;
}

FN Tally no_mismatch() { return Tally{0, ~0ull, 0, 0, ~0ull, 0}; }

// Merges a thread's mismatches into `tally`.
FN void merge(const Tally &t, u64 *tally) {
  if (t.wrong_a) { atomicAdd(tally, t.wrong_a); atomicMin(tally + 1, t.first_a); atomicMax(tally + 2, t.last_a); }
  if (t.wrong_b) { atomicAdd(tally + 3, t.wrong_b); atomicMin(tally + 4, t.first_b); atomicMax(tally + 5, t.last_b); }
}

// Writes what the run holds, or the complement of every bit, to `buffer`, which is aligned to an element: all of it, or
// what `critrank_fill_*` leaves.
extern "C" __global__ void critrank_fill_rest(void *buffer, Spec spec, RunSpec run, int inverted, int all) {
  SHARED_SPEC;
  Fill act = {(u8 *)buffer, inverted ? ~0ull : 0, spec.width};
  visit(spec, &shared, run, act, all, this_share());
}

// Merges mismatches into `tally`: wrong_a, first_a, last_a, wrong_b, first_b, last_b, which start as 0, ~0, 0 twice.
extern "C" __global__ void critrank_check_rest(const void *buffer, Spec spec, RunSpec run, u64 *tally, int all) {
  SHARED_SPEC;
  Check act = {(const u8 *)buffer, run.origin, spec.width, no_mismatch()};
  visit(spec, &shared, run, act, all, this_share());
  merge(act.t, tally);
}

// The pieces of a run by loops of their own, a kernel for each form so that each has the registers that it needs.
#define KERNELS(name, KIND)                                                                                           \
  extern "C" __global__ void __launch_bounds__(256, 4)                                                                \
      critrank_fill_##name(void *buffer, Spec spec, RunSpec run, int inverted, int) {                                 \
    SHARED_SPEC;                                                                                                      \
    Form f = {spec, shared, powers_of<KIND>(spec), KIND == POWER};                                                    \
    Fill act = {(u8 *)buffer, inverted ? ~0ull : 0, spec.width};                                                      \
    if (run.what == INPUT) walk_width<KIND, true>(f, run, act, this_share());                                         \
    else walk_width<KIND, false>(f, run, act, this_share());                                                          \
  }                                                                                                                   \
  extern "C" __global__ void __launch_bounds__(256, 4)                                                                \
      critrank_check_##name(const void *buffer, Spec spec, RunSpec run, u64 *tally, int) {                            \
    SHARED_SPEC;                                                                                                      \
    Form f = {spec, shared, 0, false};                                                                                \
    Check act = {(const u8 *)buffer, run.origin, spec.width, no_mismatch()};                                          \
    walk_width<KIND, false>(f, run, act, this_share());                                                               \
    merge(act.t, tally);                                                                                              \
  }
KERNELS(bounded, BOUNDED)
KERNELS(linear, LINEAR)
KERNELS(power, POWER)
KERNELS(signs, SIGNS)
KERNELS(extreme, EXTREME)
KERNELS(average, AVERAGE)

extern "C" __global__ void critrank_fill_copy(void *buffer, Spec spec, RunSpec run, int inverted, int) {
  Fill act = {(u8 *)buffer, inverted ? ~0ull : 0, spec.width};
  walk_copy(spec, run, act, this_share());
}

extern "C" __global__ void critrank_check_copy(const void *buffer, Spec spec, RunSpec run, u64 *tally, int) {
  Check act = {(const u8 *)buffer, run.origin, spec.width, no_mismatch()};
  walk_copy(spec, run, act, this_share());
  merge(act.t, tally);
}

// Lists up to `limit` elements that differ from pattern A, or B, as (index in the run, bits found); `found`, which
// starts as 0, counts all.
extern "C" __global__ void critrank_collect(const void *buffer, Spec spec, RunSpec run, u64 *out, u64 *found, u32 limit,
                                            u32 pattern_b) {
  SHARED_SPEC;
  Collect act = {(const u8 *)buffer, out, found, limit, pattern_b, spec.width};
  visit(spec, &shared, run, act, true, this_share());
}

#else

template <bool INPUT, class Act> static void walk_kind(const Spec &s, const RunSpec &run, Act &act, Share share) {
  Form f = {s, s, 0, false};
  switch (s.kind) {
    case BOUNDED: return walk_width<BOUNDED, INPUT>(f, run, act, share);
    case LINEAR: return walk_width<LINEAR, INPUT>(f, run, act, share);
    case POWER: return walk_width<POWER, INPUT>(f, run, act, share);
    case SIGNS: return walk_width<SIGNS, INPUT>(f, run, act, share);
    case EXTREME: return walk_width<EXTREME, INPUT>(f, run, act, share);
    default: return walk_width<AVERAGE, INPUT>(f, run, act, share);
  }
}

// What a kernel does of a run: the pieces by a loop, the single elements beside them, everything, or as the program
// starts the kernels.
enum { LOOP, ENDS, ALL, WHOLE };

template <class Act> static void part_of(const Spec &s, const RunSpec &run, Act &act, bool inputs, int part, Share share) {
  bool loop = has_loop(s, run, act.buffer) && (run.what != INPUT || inputs);
  if (part == WHOLE && loop) part_of(s, run, act, inputs, LOOP, share);
  if (part == WHOLE) return part_of(s, run, act, inputs, loop ? ENDS : ALL, share);
  if (part != LOOP) return visit(s, &s, run, act, part == ALL, share);
  if (run.what == COPIED) return walk_copy(s, run, act, share);
  if (run.what == INPUT) return walk_kind<true>(s, run, act, share);
  walk_kind<false>(s, run, act, share);
}

extern "C" void critrank_fill(void *buffer, const Spec *spec, const RunSpec *run, int inverted, int part, u64 threads) {
  Fill act = {(u8 *)buffer, inverted ? ~0ull : 0, spec->width};
  for (u64 thread = 0; thread < threads; thread++) part_of(*spec, *run, act, true, part, Share{thread, threads});
}

extern "C" void critrank_check(const void *buffer, const Spec *spec, const RunSpec *run, u64 *tally, int part, u64 threads) {
  Check act = {(const u8 *)buffer, run->origin, spec->width, {0, ~0ull, 0, 0, ~0ull, 0}};
  for (u64 thread = 0; thread < threads; thread++) part_of(*spec, *run, act, false, part, Share{thread, threads});
  memcpy(tally, &act.t, sizeof act.t);
}

extern "C" void critrank_collect(const void *buffer, const Spec *spec, const RunSpec *run, u64 *out, u64 *found,
                                 u32 limit, u32 pattern_b, u64 threads) {
  Collect act = {(const u8 *)buffer, out, found, limit, pattern_b, spec->width};
  for (u64 thread = 0; thread < threads; thread++) visit(*spec, spec, *run, act, true, Share{thread, threads});
}

extern "C" u64 critrank_sizes() { return (u64)sizeof(Spec) << 32 | sizeof(RunSpec); }

#endif
