// Fill and check kernels: the closed forms of ../scheme.rs and the loops of ../host.rs, in the same order and with
// the same names. Compiles with NVRTC alone (ci/ptx.sh) and, for the test that compares bits, with a C++ compiler.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef __CUDACC_RTC__
#define FN __device__ __forceinline__
#define FN_MEMBER __device__ __forceinline__
#else
#include <cstring>
#define FN static inline
#define FN_MEMBER inline
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

// ---- bits of the machine

#ifdef __CUDACC_RTC__
FN u64 high_product(u64 a, u64 b) { return __umul64hi(a, b); }
FN u32 bits_of(float x) { return __float_as_uint(x); }
FN float float_of(u32 x) { return __uint_as_float(x); }
FN u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
FN double double_of(u64 x) { return __longlong_as_double((long long)x); }
#else
FN u64 high_product(u64 a, u64 b) { return (u64)(((unsigned __int128)a * b) >> 64); }
FN u32 bits_of(float x) { u32 y; memcpy(&y, &x, 4); return y; }
FN float float_of(u32 x) { float y; memcpy(&y, &x, 4); return y; }
FN u64 bits_of(double x) { u64 y; memcpy(&y, &x, 8); return y; }
FN double double_of(u64 x) { double y; memcpy(&y, &x, 8); return y; }
#endif

// ---- scheme.rs

FN u64 mix_step(u64 state, u64 part) {
  state = (state ^ part) * 0xbf58476d1ce4e5b9ull;
  state = (state ^ (state >> 29)) * 0x94d049bb133111ebull;
  return state ^ (state >> 32);
}

FN u64 stream_seed(const Spec &s, u32 source) {
  return mix_step(mix_step(mix_step(0x243f6a8885a308d3ull, s.seed), source), 3);
}

FN u64 hash(u64 seed, u64 k) {
  u64 state = k * 0x9e3779b97f4a7c15ull + seed;
  state = (state ^ (state >> 32)) * 0xd6e8feb86659fd93ull;
  state = (state ^ (state >> 29)) * 0x94d049bb133111ebull;
  return state ^ (state >> 32);
}

FN u64 signs(const Spec &s, u64 k) {
  u64 signs = ((k * 0x9e3779b97f4a7c15ull) >> 56) ^ (0 - (s.repetition & 1));
  return s.is_signed ? signs : 0;
}

FN u64 mask(const Spec &s) { return ~0ull >> (64 - s.width); }

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

FN void advance(const Spec &s, Place &place) {
  place.phase += s.stride;
  u32 q = place.q + s.ranks - s.stride;
  if (place.phase >= s.ranks) {
    place.phase -= s.ranks;
    q += s.wander;
  }
  place.q = q >= s.ranks ? q - s.ranks : q;
}

FN u64 encode(const Spec &s, u64 value, u64 slice, u64 negative) {
  u64 bits;
  if (!s.is_float) return negative ? 0 - value : value;
  if (s.width == 64) bits = bits_of((double)value);
  else bits = (u64)bits_of((float)(u32)value) >> (23 - s.mantissa);
  u64 exponent = (slice >> s.exponent_shift) & s.exponent_mask;
  return (bits + (exponent << s.mantissa) + s.exponent) | (negative << (s.width - 1));
}

FN u64 power(const Spec &s, u64 exponent) {
  u64 product = 1;
  for (int bit = 0; bit < 8; bit++)
    if ((exponent >> bit) & 1) product *= s.lead[bit];
  return product;
}

FN u64 power_result(const Spec &s, u64 slice) { return (slice << 3) + (s.repetition << 2) + 3; }

FN u64 signs_lead(const Spec &s, u64 slice) {
  u64 exponent = (slice >> s.exponent_shift) & s.exponent_mask;
  return s.exponent + (exponent << s.mantissa) + ((slice & s.payload) | 1);
}

FN u64 narrow(const Spec &s, float value) {
  u64 bits = bits_of(value);
  u32 drop = 23 - s.mantissa;
  if (drop == 0) return bits;
  u64 rounded = (bits + (1ull << (drop - 1)) - 1 + ((bits >> drop) & 1)) >> drop;
  return s.mantissa == 10 ? rounded - (112 << 10) : rounded;
}

FN Pair average(const Spec &s, u64 slice) {
  u64 fraction = slice & s.payload;
  if (s.width == 8) return Pair{(s.scalar_a >> (8 * fraction)) & 0xff, (s.scalar_b >> (8 * fraction)) & 0xff};
  u64 doubled = (u64)(s.stride - 1) << s.mantissa, bits = s.exponent | fraction;
  if (s.width == 64) {
    u64 average = bits_of(double_of(bits) * double_of(s.scalar_a)) + doubled;
    return Pair{average, average};
  }
  u64 rebase = s.mantissa == 10 ? 112ull << 10 : 0;
  float value = float_of((u32)((bits + rebase) << (23 - s.mantissa)));
  return Pair{narrow(s, value * float_of((u32)s.scalar_a)) + doubled,
              narrow(s, value * float_of((u32)s.scalar_b)) + doubled};
}

template <u32 KIND> FN Pair result(const Spec &s, u64 index, u64 slice, u64 negative) {
  u32 digit = (u32)index & s.digit_last;
  u64 bits = 0;
  if (KIND == BOUNDED) bits = encode(s, s.base[digit] + ((slice + s.age) & s.payload), slice, negative);
  if (KIND == LINEAR) bits = (s.base[digit] + (slice << 1)) << s.scale;
  if (KIND == POWER) bits = power_result(s, slice);
  if (KIND == SIGNS) bits = (signs_lead(s, slice) + s.base[1]) | s.base[2];
  if (KIND == EXTREME) bits = (((slice + s.age) & s.payload) + s.base[0]) ^ s.base[1];
  if (KIND == AVERAGE) {
    u64 sign = negative << (s.width - 1);
    Pair legal = average(s, slice);
    return Pair{legal.a | sign, legal.b | sign};
  }
  return Pair{bits & mask(s), bits & mask(s)};
}

FN u64 digit_of(const Spec &s, u32 number, u32 digit) {
  return (number >> (s.digit_bits * digit)) & ((1ull << s.digit_bits) - 1);
}

template <u32 KIND> FN u64 contribution(const Spec &s, u32 rank, u32 q, u64 index, u64 slice, u64 negative) {
  u32 digit = (u32)index & s.digit_last;
  u64 n = s.ranks, t = s.repetition;
  bool scaled = (rank + t) & 1;
  if (KIND == BOUNDED) {
    if (q >= s.stride) return 0;
    u64 lead = s.lead[digit] + ((slice + s.age) & s.payload);
    u64 value = 1 + (digit_of(s, q, digit) ^ s.digit_flip) + (q == 0 ? lead : 0);
    u64 bits = encode(s, value * s.factor, slice, negative);
    return scaled ? bits - ((u64)s.scale << s.mantissa) : bits;
  }
  if (KIND == LINEAR) {
    u64 lead = slice * (1 - n) + s.lead[0];
    u64 value = 2 * (slice + digit_of(s, rank, digit) + t + (q == 0 ? lead : 0)) + 1;
    return scaled ? value : value << s.scale;
  }
  if (KIND == POWER) {
    u64 own = 1 + 2 * (slice + digit_of(s, rank, digit) + t), all = s.base[digit] + slice * (2 * n);
    return q == 0 ? power_result(s, slice) * power(s, own - all) : power(s, own);
  }
  if (KIND == SIGNS) {
    u64 one = 1ull << s.mantissa, magnitude = s.base[0];
    if (q == 0) magnitude = signs_lead(s, slice);
    if (q == 1) magnitude += one;
    if (q == 2) magnitude -= one;
    return magnitude | (1ull << (s.width - 1));
  }
  if (KIND == EXTREME) {
    if (q == 0) return result<KIND>(s, index, slice, 0).a;
    u64 low = slice ^ (rank * 0x9e3779b97f4a7c15ull) ^ (t * 5);
    return ((low & s.payload) + s.base[2]) ^ s.base[1];
  }
  return q < s.stride ? s.exponent | (slice & s.payload) | (negative << (s.width - 1)) : 0;
}

// The form and the width are constants of the loop: template arguments, so that each word unrolls.
template <u32 KIND, u32 WIDTH> FN Pair word(Spec s, u32 what, u32 rank, u64 seed, u64 k) {
  s.width = WIDTH;
  u64 h = hash(seed, k);
  if (KIND == COPY) return Pair{h, h};
  u64 sg = signs(s, k), first = k * (64 / WIDTH);
  Pair words = {0, 0};
  Place place = {0, 0};
  if (what == INPUT) place = place_at(s, rank, first);
#pragma unroll
  for (u32 element = 0; element < 64 / WIDTH; element++) {
    u32 shift = element * WIDTH;
    u64 slice = (h >> shift) & mask(s), negative = (sg >> element) & 1, index = first + element;
    if (what == INPUT) {
      u64 bits = contribution<KIND>(s, rank, place.q, index, slice, negative) & mask(s);
      words.a |= bits << shift;
      words.b = words.a;
      advance(s, place);
    } else {
      Pair legal = result<KIND>(s, index, slice, negative);
      words.a |= legal.a << shift;
      words.b |= legal.b << shift;
    }
  }
  return words;
}

// ---- loops

struct Tally { u64 wrong_a, first_a, last_a, wrong_b, first_b, last_b; };

FN void note(Tally &t, u64 position, bool a, bool b) {
  if (a) {
    t.wrong_a++;
    if (position < t.first_a) t.first_a = position;
    if (position > t.last_a) t.last_a = position;
  }
  if (b) {
    t.wrong_b++;
    if (position < t.first_b) t.first_b = position;
    if (position > t.last_b) t.last_b = position;
  }
}

// The two words of the pattern that begin at byte `start` of a stream, which need not be a multiple of 8.
struct Quad { Pair low, high; };
template <u32 KIND, u32 WIDTH> FN Quad quad(const Spec &s, u32 what, u32 rank, u64 seed, u64 start) {
  u64 k = start >> 3;
  u32 shift = (u32)(start & 7) * 8;
  Pair p0 = word<KIND, WIDTH>(s, what, rank, seed, k), p1 = word<KIND, WIDTH>(s, what, rank, seed, k + 1);
  if (shift == 0) return Quad{p0, p1};
  Pair p2 = word<KIND, WIDTH>(s, what, rank, seed, k + 2);
  u32 up = 64 - shift;
  return Quad{Pair{p0.a >> shift | p1.a << up, p0.b >> shift | p1.b << up},
              Pair{p1.a >> shift | p2.a << up, p1.b >> shift | p2.b << up}};
}

template <u32 WIDTH> FN u64 load(const u8 *p) {
  if (WIDTH == 8) return *p;
  if (WIDTH == 16) return *(const unsigned short *)p;
  if (WIDTH == 32) return *(const u32 *)p;
  return *(const u64 *)p;
}

template <u32 WIDTH> FN void store(u8 *p, u64 bits) {
  if (WIDTH == 8) *p = (u8)bits;
  else if (WIDTH == 16) *(unsigned short *)p = (unsigned short)bits;
  else if (WIDTH == 32) *(u32 *)p = (u32)bits;
  else *(u64 *)p = bits;
}

struct alignas(16) Vector { u64 low, high; };

// What to do with the elements: write them, count those that differ, or list those.
struct Fill {
  u8 *buffer; u64 flip;
  template <u32 W> FN_MEMBER void element(const RunSpec &, u64 index, u64 a, u64) { store<W>(buffer + index * (W / 8), a ^ flip); }
  template <u32 W> FN_MEMBER void vector(const RunSpec &, u64 index, const Quad &q) {
    *(Vector *)(buffer + index * (W / 8)) = Vector{q.low.a ^ flip, q.high.a ^ flip};
  }
};

struct Check {
  const u8 *buffer; Tally tally;
  template <u32 W> FN_MEMBER void element(const RunSpec &run, u64 index, u64 a, u64 b) {
    u64 got = load<W>(buffer + index * (W / 8));
    note(tally, run.origin + index, got != a, got != b);
  }
  template <u32 W> FN_MEMBER void half(const RunSpec &run, u64 index, u64 got, const Pair &p) {
    if (got == p.a && got == p.b) return;
    for (u32 shift = 0; shift < 64; shift += W) {
      u64 keep = ~0ull >> (64 - W);
      note(tally, run.origin + index++, ((got ^ p.a) >> shift) & keep, ((got ^ p.b) >> shift) & keep);
    }
  }
  template <u32 W> FN_MEMBER void vector(const RunSpec &run, u64 index, const Quad &q) {
    Vector got = *(const Vector *)(buffer + index * (W / 8));
    half<W>(run, index, got.low, q.low);
    half<W>(run, index + 64 / W, got.high, q.high);
  }
};

// Lists (index in the run, bits found) in no particular order; counts beyond the limit too.
struct Collect {
  const u8 *buffer; u64 *out, *found; u32 limit, pattern_b;
  template <u32 W> FN_MEMBER void element(const RunSpec &, u64 index, u64 a, u64 b) {
    u64 got = load<W>(buffer + index * (W / 8));
    if (got == (pattern_b ? b : a)) return;
#ifdef __CUDACC_RTC__
    u64 at = atomicAdd(found, 1ull);
#else
    u64 at = (*found)++;
#endif
    if (at < limit) { out[2 * at] = index; out[2 * at + 1] = got; }
  }
  template <u32 W> FN_MEMBER void vector(const RunSpec &run, u64 index, const Quad &q) {
    for (u32 e = 0; e < 128 / W; e++) {
      const Pair &p = e < 64 / W ? q.low : q.high;
      u32 shift = e % (64 / W) * W;
      element<W>(run, index + e, (p.a >> shift) & (~0ull >> (64 - W)), (p.b >> shift) & (~0ull >> (64 - W)));
    }
  }
};

struct Source { u32 rank; u64 seed, first; };

// Whose stream, and which element of it, element `index` of the run is.
template <u32 KIND> FN Source locate(const Spec &s, const RunSpec &run, u64 index, u64 *left) {
  Division d = {0, index};
  if (run.block <= index) d = divide(index, run.block, run.block_magic);
  u32 rank = run.rank + (u32)d.quotient * run.rank_step;
  *left = run.block - d.remainder;
  return Source{rank, KIND == COPY ? stream_seed(s, rank) : s.seed, run.first + d.quotient * run.first_step + d.remainder};
}

template <u32 KIND, u32 WIDTH, class Act> FN void one(const Spec &s, const RunSpec &run, Act &act, u64 index) {
  u64 left;
  Source from = locate<KIND>(s, run, index, &left);
  const u32 per_word = 64 / WIDTH;
  Pair p = word<KIND, WIDTH>(s, run.what, from.rank, from.seed, from.first / per_word);
  u32 shift = (u32)(from.first % per_word) * WIDTH;
  u64 keep = ~0ull >> (64 - WIDTH);
  act.template element<WIDTH>(run, index, (p.a >> shift) & keep, (p.b >> shift) & keep);
}

// Thread `thread` of `threads`: the 16-byte pieces of the buffer, then the elements before and behind them.
template <u32 KIND, u32 WIDTH, class Act> FN void walk(const Spec &s, const RunSpec &run, Act &act, u64 thread, u64 threads) {
  const u32 per_vector = 128 / WIDTH;
  u64 head = ((0 - (u64)act.buffer) & 15) / (WIDTH / 8);
  if (head > run.count) head = run.count;
  u64 vectors = (run.count - head) / per_vector, tail = head + vectors * per_vector;
  for (u64 v = thread; v < vectors; v += threads) {
    u64 index = head + v * per_vector, left;
    Source from = locate<KIND>(s, run, index, &left);
    if (left >= per_vector)
      act.template vector<WIDTH>(run, index, quad<KIND, WIDTH>(s, run.what, from.rank, from.seed, from.first * (WIDTH / 8)));
    else
      for (u32 e = 0; e < per_vector; e++) one<KIND, WIDTH>(s, run, act, index + e);
  }
  u64 rest = head + run.count - tail;
  for (u64 e = thread; e < rest; e += threads) one<KIND, WIDTH>(s, run, act, e < head ? e : tail + e - head);
}

template <u32 KIND, class Act> FN void by_width(const Spec &s, const RunSpec &run, Act &act, u64 thread, u64 threads) {
  switch (s.width) {
    case 8: return walk<KIND, 8>(s, run, act, thread, threads);
    case 16: return walk<KIND, 16>(s, run, act, thread, threads);
    case 32: return walk<KIND, 32>(s, run, act, thread, threads);
    default: return walk<KIND, 64>(s, run, act, thread, threads);
  }
}

template <class Act> FN void by_kind(const Spec &s, const RunSpec &run, Act &act, u64 thread, u64 threads) {
  switch (run.what == COPIED ? COPY : s.kind) {
    case COPY: return by_width<COPY>(s, run, act, thread, threads);
    case BOUNDED: return by_width<BOUNDED>(s, run, act, thread, threads);
    case LINEAR: return by_width<LINEAR>(s, run, act, thread, threads);
    case POWER: return by_width<POWER>(s, run, act, thread, threads);
    case SIGNS: return by_width<SIGNS>(s, run, act, thread, threads);
    case EXTREME: return by_width<EXTREME>(s, run, act, thread, threads);
    default: return by_width<AVERAGE>(s, run, act, thread, threads);
  }
}

#ifdef __CUDACC_RTC__

FN u64 this_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
FN u64 all_threads() { return (u64)gridDim.x * blockDim.x; }

// Writes what the run holds, or the complement of every bit, to `buffer`, which is aligned to an element.
extern "C" __global__ void critrank_fill(void *buffer, Spec spec, RunSpec run, int inverted) {
  Fill act = {(u8 *)buffer, inverted ? ~0ull : 0};
  by_kind(spec, run, act, this_thread(), all_threads());
}

// Merges mismatches into `tally`: wrong_a, first_a, last_a, wrong_b, first_b, last_b, which start as 0, ~0, 0 twice.
extern "C" __global__ void critrank_check(const void *buffer, Spec spec, RunSpec run, u64 *tally) {
  Check act = {(const u8 *)buffer, {0, ~0ull, 0, 0, ~0ull, 0}};
  by_kind(spec, run, act, this_thread(), all_threads());
  __shared__ u64 block[6];
  if (threadIdx.x < 6) block[threadIdx.x] = threadIdx.x % 3 == 1 ? ~0ull : 0;
  __syncthreads();
  const Tally &t = act.tally;
  if (t.wrong_a) { atomicAdd(block, t.wrong_a); atomicMin(block + 1, t.first_a); atomicMax(block + 2, t.last_a); }
  if (t.wrong_b) { atomicAdd(block + 3, t.wrong_b); atomicMin(block + 4, t.first_b); atomicMax(block + 5, t.last_b); }
  __syncthreads();
  if (threadIdx.x == 0 && (block[0] | block[3])) {
    for (int half = 0; half < 6; half += 3) {
      atomicAdd(tally + half, block[half]);
      atomicMin(tally + half + 1, block[half + 1]);
      atomicMax(tally + half + 2, block[half + 2]);
    }
  }
}

// Lists up to `limit` elements that differ from pattern A, or B, as (index in the run, bits found); `found` counts all.
extern "C" __global__ void critrank_collect(const void *buffer, Spec spec, RunSpec run, u64 *out, u64 *found, u32 limit,
                                            u32 pattern_b) {
  Collect act = {(const u8 *)buffer, out, found, limit, pattern_b};
  by_kind(spec, run, act, this_thread(), all_threads());
}

#else

extern "C" void critrank_fill(void *buffer, const Spec *spec, const RunSpec *run, int inverted, u64 threads) {
  Fill act = {(u8 *)buffer, inverted ? ~0ull : 0};
  for (u64 thread = 0; thread < threads; thread++) by_kind(*spec, *run, act, thread, threads);
}

extern "C" void critrank_check(const void *buffer, const Spec *spec, const RunSpec *run, u64 *tally, u64 threads) {
  Check act = {(const u8 *)buffer, {0, ~0ull, 0, 0, ~0ull, 0}};
  for (u64 thread = 0; thread < threads; thread++) by_kind(*spec, *run, act, thread, threads);
  memcpy(tally, &act.tally, sizeof act.tally);
}

extern "C" void critrank_collect(const void *buffer, const Spec *spec, const RunSpec *run, u64 *out, u64 *found,
                                 u32 limit, u32 pattern_b, u64 threads) {
  Collect act = {(const u8 *)buffer, out, found, limit, pattern_b};
  for (u64 thread = 0; thread < threads; thread++) by_kind(*spec, *run, act, thread, threads);
}

extern "C" u64 critrank_sizes() { return sizeof(Spec) << 32 | sizeof(RunSpec); }

#endif
