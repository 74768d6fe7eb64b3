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

// ---- bits of the machine

#ifdef __CUDACC_RTC__
FN u64 high_product(u64 a, u64 b) { return __umul64hi(a, b); }
FN u32 bits_of(float x) { return __float_as_uint(x); }
FN u64 count_up(u64 *count) { return atomicAdd(count, 1ull); }
FN float float_of(u32 x) { return __uint_as_float(x); }
FN u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
FN double double_of(u64 x) { return __longlong_as_double((long long)x); }
#else
FN u64 high_product(u64 a, u64 b) { return (u64)(((unsigned __int128)a * b) >> 64); }
FN u32 bits_of(float x) { u32 y; memcpy(&y, &x, 4); return y; }
FN u64 count_up(u64 *count) { return (*count)++; }
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

template <u32 WIDTH> FN u64 encode(const Spec &s, u64 value, u64 slice, u64 negative) {
  u64 bits;
  if (!s.is_float) return negative ? 0 - value : value;
  if (WIDTH == 64) bits = bits_of((double)value);
  else bits = (u64)bits_of((float)(u32)value) >> (23 - s.mantissa);
  u64 exponent = (slice >> s.exponent_shift) & s.exponent_mask;
  return (bits + (exponent << s.mantissa) + s.exponent) | (negative << (WIDTH - 1));
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

template <u32 WIDTH> FN Pair average(const Spec &s, u64 slice) {
  u64 fraction = slice & s.payload;
  if (WIDTH == 8) return Pair{(s.scalar_a >> (8 * fraction)) & 0xff, (s.scalar_b >> (8 * fraction)) & 0xff};
  u64 doubled = (u64)(s.stride - 1) << s.mantissa, bits = s.exponent | fraction;
  if (WIDTH == 64) {
    u64 average = bits_of(double_of(bits) * double_of(s.scalar_a)) + doubled;
    return Pair{average, average};
  }
  u64 rebase = s.mantissa == 10 ? 112ull << 10 : 0;
  float value = float_of((u32)((bits + rebase) << (23 - s.mantissa)));
  return Pair{narrow(s, value * float_of((u32)s.scalar_a)) + doubled,
              narrow(s, value * float_of((u32)s.scalar_b)) + doubled};
}

template <u32 KIND, u32 WIDTH> FN Pair result(const Spec &s, u64 index, u64 slice, u64 negative) {
  u32 digit = (u32)index & s.digit_last;
  u64 bits = 0;
  if (KIND == BOUNDED) bits = encode<WIDTH>(s, s.base[digit] + ((slice + s.age) & s.payload), slice, negative);
  if (KIND == LINEAR) bits = (s.base[digit] + (slice << 1)) << s.scale;
  if (KIND == POWER) bits = power_result(s, slice);
  if (KIND == SIGNS) bits = (signs_lead(s, slice) + s.base[1]) | s.base[2];
  if (KIND == EXTREME) bits = (((slice + s.age) & s.payload) + s.base[0]) ^ s.base[1];
  if (KIND == AVERAGE) {
    u64 sign = negative << (WIDTH - 1);
    Pair legal = average<WIDTH>(s, slice);
    return Pair{legal.a | sign, legal.b | sign};
  }
  return Pair{bits, bits};
}

FN u64 digit_of(const Spec &s, u32 number, u32 digit) {
  return (number >> (s.digit_bits * digit)) & ((1ull << s.digit_bits) - 1);
}

template <u32 KIND, u32 WIDTH> FN u64 contribution(const Spec &s, u32 rank, u32 q, u64 index, u64 slice, u64 negative) {
  u32 digit = (u32)index & s.digit_last;
  u64 n = s.ranks, t = s.repetition;
  bool scaled = (rank + t) & 1;
  if (KIND == BOUNDED) {
    if (q >= s.stride) return 0;
    u64 lead = s.lead[digit] + ((slice + s.age) & s.payload);
    u64 value = 1 + (digit_of(s, q, digit) ^ s.digit_flip) + (q == 0 ? lead : 0);
    u64 bits = encode<WIDTH>(s, value * s.factor, slice, negative);
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
    return magnitude | (1ull << (WIDTH - 1));
  }
  if (KIND == EXTREME) {
    if (q == 0) return result<KIND, WIDTH>(s, index, slice, 0).a;
    u64 low = slice ^ (rank * 0x9e3779b97f4a7c15ull) ^ (t * 5);
    return ((low & s.payload) + s.base[2]) ^ s.base[1];
  }
  return q < s.stride ? s.exponent | (slice & s.payload) | (negative << (WIDTH - 1)) : 0;
}

template <u32 KIND, u32 WIDTH> FN Pair result_word(const Spec &s, u64 k) {
  u64 h = hash(s.seed, k), sg = signs(s, k), first = k * (64 / WIDTH), keep = ~0ull >> (64 - WIDTH);
  Pair words = {0, 0};
  UNROLL(8)
  for (u32 element = 0; element < 64 / WIDTH; element++) {
    u32 shift = element * WIDTH;
    Pair legal = result<KIND, WIDTH>(s, first + element, (h >> shift) & keep, (sg >> element) & 1);
    words.a |= (legal.a & keep) << shift;
    words.b |= (legal.b & keep) << shift;
  }
  return words;
}

template <u32 KIND, u32 WIDTH> FN Pair input_word(const Spec &s, u32 rank, u64 k) {
  u64 h = hash(s.seed, k), sg = signs(s, k), first = k * (64 / WIDTH), keep = ~0ull >> (64 - WIDTH), word = 0;
  Place place = place_at(s, rank, first);
  UNROLL(1)
  for (u32 element = 0; element < 64 / WIDTH; element++) {
    u32 shift = element * WIDTH;
    u64 slice = (h >> shift) & keep, negative = (sg >> element) & 1;
    word |= (contribution<KIND, WIDTH>(s, rank, place.q, first + element, slice, negative) & keep) << shift;
    advance(s, place);
  }
  return Pair{word, word};
}

template <u32 KIND> FN Pair word_of_kind(const Spec &s, bool input, u32 rank, u64 k) {
  switch (s.width) {
    case 8: return input ? input_word<KIND, 8>(s, rank, k) : result_word<KIND, 8>(s, k);
    case 16: return input ? input_word<KIND, 16>(s, rank, k) : result_word<KIND, 16>(s, k);
    case 32: return input ? input_word<KIND, 32>(s, rank, k) : result_word<KIND, 32>(s, k);
    default: return input ? input_word<KIND, 64>(s, rank, k) : result_word<KIND, 64>(s, k);
  }
}

// Word `k` of any form and width: one copy for all that is not worth unrolling.
OUTLINE Pair any_word(const Spec *s, bool input, u32 rank, u64 k) {
  switch (s->kind) {
    case BOUNDED: return word_of_kind<BOUNDED>(*s, input, rank, k);
    case LINEAR: return word_of_kind<LINEAR>(*s, input, rank, k);
    case POWER: return word_of_kind<POWER>(*s, input, rank, k);
    case SIGNS: return word_of_kind<SIGNS>(*s, input, rank, k);
    case EXTREME: return word_of_kind<EXTREME>(*s, input, rank, k);
    default: return word_of_kind<AVERAGE>(*s, input, rank, k);
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

// Where words come from.
struct Streams {
  FN_MEMBER Pair operator()(const Source &from, u64 k) const { u64 h = hash(from.seed, k); return Pair{h, h}; }
};
template <u32 KIND, u32 WIDTH> struct Results {
  const Spec &s;
  FN_MEMBER Pair operator()(const Source &, u64 k) const { return result_word<KIND, WIDTH>(s, k); }
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
  FN_MEMBER void note(u64 index, bool a, bool b) {
    u64 position = origin + index;
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
  FN_MEMBER void element(u64 index, const Pair &p) {
    u64 got = load(buffer + index * (width / 8), width);
    note(index, got != p.a, got != p.b);
  }
  FN_MEMBER Vector begin(u64 index) { return *(const Vector *)(buffer + index * (width / 8)); }
  FN_MEMBER void half(u64 index, u64 &got, const Pair &p) {
    if (got == p.a && got == p.b) return;
    u64 keep = ~0ull >> (64 - width);
    UNROLL(1)
    for (u32 shift = 0; shift < 64; shift += width)
      note(index++, ((got ^ p.a) >> shift) & keep, ((got ^ p.b) >> shift) & keep);
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

template <class Words, class Act> FN void one(const Spec &s, const RunSpec &run, const Words &words, Act &act, u64 index) {
  Source from = locate(s, run, index);
  u64 position = from.first * (s.width / 8), keep = ~0ull >> (64 - s.width);
  Pair p = words(from, position >> 3);
  u32 shift = (u32)(position & 7) * 8;
  act.element(index, Pair{(p.a >> shift) & keep, (p.b >> shift) & keep});
}

// 16 aligned bytes of the buffer within one block. In the stream they may start anywhere, so they are made of two
// words or of parts of three.
template <class Words, class Act> FN void vector(const Spec &s, const Source &from, const Words &words, Act &act, u64 index) {
  u64 position = from.first * (s.width / 8), k = position >> 3;
  u32 shift = (u32)(position & 7) * 8, skip = shift != 0;
  Vector v = act.begin(index);
  Pair last = {0, 0};
  UNROLL(1)
  for (u32 i = 0; i < 2 + skip; i++) {
    Pair p = words(from, k + i), joined = p;
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

// This thread's share of the run: 16-byte pieces of the buffer from `words`, single elements from `rest`.
template <class Words, class Rest, class Act>
FN void walk(const Spec &s, const RunSpec &run, const Words &words, const Rest &rest, Act &act, Share share) {
  u64 bytes = s.width / 8, per_vector = 16 / bytes;
  u64 head = ((0 - (u64)act.buffer) & 15) / bytes;
  if (head > run.count) head = run.count;
  u64 vectors = (run.count - head) / per_vector, tail = head + vectors * per_vector, ends = head + run.count - tail;
  for (u64 v = share.thread; v < vectors; v += share.threads) {
    u64 index = head + v * per_vector;
    Source from = locate(s, run, index);
    if (from.left >= per_vector) vector(s, from, words, act, index);
    else
      for (u64 e = 0; e < per_vector; e++) one(s, run, rest, act, index + e);
  }
  for (u64 e = share.thread; e < ends; e += share.threads) one(s, run, rest, act, e < head ? e : tail + e - head);
}

template <u32 KIND> FN void check_kind(const Spec &s, const RunSpec &run, const Any &rest, Check &act, Share share) {
  switch (s.width) {
    case 8: return walk(s, run, Results<KIND, 8>{s}, rest, act, share);
    case 16: return walk(s, run, Results<KIND, 16>{s}, rest, act, share);
    case 32: return walk(s, run, Results<KIND, 32>{s}, rest, act, share);
    default: return walk(s, run, Results<KIND, 64>{s}, rest, act, share);
  }
}

// `shared` is the same as `s`, where a function that is called can read it.
FN void check(const Spec &s, const Spec *shared, const RunSpec &run, Check &act, Share share) {
  if (run.what == COPIED) return walk(s, run, Streams{}, Streams{}, act, share);
  Any rest = {shared, run.what == INPUT};
  if (run.what == INPUT) return walk(s, run, rest, rest, act, share);
  switch (s.kind) {
    case BOUNDED: return check_kind<BOUNDED>(s, run, rest, act, share);
    case LINEAR: return check_kind<LINEAR>(s, run, rest, act, share);
    case POWER: return check_kind<POWER>(s, run, rest, act, share);
    case SIGNS: return check_kind<SIGNS>(s, run, rest, act, share);
    case EXTREME: return check_kind<EXTREME>(s, run, rest, act, share);
    default: return check_kind<AVERAGE>(s, run, rest, act, share);
  }
}

template <class Act> FN void visit(const Spec &s, const Spec *shared, const RunSpec &run, Act &act, Share share) {
  Any any = {shared, run.what == INPUT};
  if (run.what == COPIED) walk(s, run, Streams{}, Streams{}, act, share);
  else walk(s, run, any, any, act, share);
}

#ifdef __CUDACC_RTC__

FN Share this_share() { return Share{(u64)blockIdx.x * blockDim.x + threadIdx.x, (u64)gridDim.x * blockDim.x}; }

// Writes what the run holds, or the complement of every bit, to `buffer`, which is aligned to an element.
extern "C" __global__ void critrank_fill(void *buffer, Spec spec, RunSpec run, int inverted) {
  __shared__ Spec shared;
  if (threadIdx.x == 0) shared = spec;
  __syncthreads();
  Fill act = {(u8 *)buffer, inverted ? ~0ull : 0, spec.width};
  visit(spec, &shared, run, act, this_share());
}

// Merges mismatches into `tally`: wrong_a, first_a, last_a, wrong_b, first_b, last_b, which start as 0, ~0, 0 twice.
extern "C" __global__ void critrank_check(const void *buffer, Spec spec, RunSpec run, u64 *tally) {
  __shared__ Spec shared;
  __shared__ u64 block[6];
  if (threadIdx.x == 0) {
    shared = spec;
    for (int i = 0; i < 6; i++) block[i] = i % 3 == 1 ? ~0ull : 0;
  }
  __syncthreads();
  Check act = {(const u8 *)buffer, run.origin, spec.width, {0, ~0ull, 0, 0, ~0ull, 0}};
  check(spec, &shared, run, act, this_share());
  const Tally &t = act.t;
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

// Lists up to `limit` elements that differ from pattern A, or B, as (index in the run, bits found); `found`, which
// starts as 0, counts all.
extern "C" __global__ void critrank_collect(const void *buffer, Spec spec, RunSpec run, u64 *out, u64 *found, u32 limit,
                                            u32 pattern_b) {
  __shared__ Spec shared;
  if (threadIdx.x == 0) shared = spec;
  __syncthreads();
  Collect act = {(const u8 *)buffer, out, found, limit, pattern_b, spec.width};
  visit(spec, &shared, run, act, this_share());
}

#else

extern "C" void critrank_fill(void *buffer, const Spec *spec, const RunSpec *run, int inverted, u64 threads) {
  Fill act = {(u8 *)buffer, inverted ? ~0ull : 0, spec->width};
  for (u64 thread = 0; thread < threads; thread++) visit(*spec, spec, *run, act, Share{thread, threads});
}

extern "C" void critrank_check(const void *buffer, const Spec *spec, const RunSpec *run, u64 *tally, u64 threads) {
  Check act = {(const u8 *)buffer, run->origin, spec->width, {0, ~0ull, 0, 0, ~0ull, 0}};
  for (u64 thread = 0; thread < threads; thread++) check(*spec, spec, *run, act, Share{thread, threads});
  memcpy(tally, &act.t, sizeof act.t);
}

extern "C" void critrank_collect(const void *buffer, const Spec *spec, const RunSpec *run, u64 *out, u64 *found,
                                 u32 limit, u32 pattern_b, u64 threads) {
  Collect act = {(const u8 *)buffer, out, found, limit, pattern_b, spec->width};
  for (u64 thread = 0; thread < threads; thread++) visit(*spec, spec, *run, act, Share{thread, threads});
}

extern "C" u64 critrank_sizes() { return (u64)sizeof(Spec) << 32 | sizeof(RunSpec); }

#endif
