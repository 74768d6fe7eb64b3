/* The kernels for the fake libcuda: the same source that GPUs run, built for the host, behind the arguments that
 * cuLaunchKernel gets. */
#include <stdint.h>

extern void critrank_fill(void *buffer, const void *spec, const void *run, int inverted, int part,
                          uint64_t threads);
extern void critrank_check(const void *buffer, const void *spec, const void *run, uint64_t *tally, int part,
                           uint64_t threads);
extern void critrank_collect(const void *buffer, const void *spec, const void *run, uint64_t *out, uint64_t *found,
                             uint32_t limit, uint32_t pattern_b, uint64_t threads);

#define THREADS 64

enum { LOOP, ENDS, ALL };
static int rest(void **a) { return *(int *)a[4] ? ALL : ENDS; }

static void fill(void **a, int part) { critrank_fill(*(void **)a[0], a[1], a[2], *(int *)a[3], part, THREADS); }
void fake_fill_loop(void **a) { fill(a, LOOP); }
void fake_fill_rest(void **a) { fill(a, rest(a)); }

/* On the host a tally is written, on a GPU it is merged. */
static void check(void **a, int part) {
  uint64_t mine[6], *all = *(uint64_t **)a[3];
  critrank_check(*(void **)a[0], a[1], a[2], mine, part, THREADS);
  for (int i = 0; i < 6; i += 3) {
    all[i] += mine[i];
    if (mine[i + 1] < all[i + 1]) all[i + 1] = mine[i + 1];
    if (mine[i + 2] > all[i + 2]) all[i + 2] = mine[i + 2];
  }
}
void fake_check_loop(void **a) { check(a, LOOP); }
void fake_check_rest(void **a) { check(a, rest(a)); }

void fake_collect(void **a) {
  critrank_collect(*(void **)a[0], a[1], a[2], *(uint64_t **)a[3], *(uint64_t **)a[4], *(uint32_t *)a[5], *(uint32_t *)a[6], THREADS);
}
