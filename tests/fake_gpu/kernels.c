/* The kernels for the fake libcuda: the same source that GPUs run, built for the host, behind the arguments that
 * cuLaunchKernel gets. */
#include <stdint.h>

extern void critrank_fill(void *buffer, const void *spec, const void *run, int inverted, uint64_t threads);
extern void critrank_check(const void *buffer, const void *spec, const void *run, uint64_t *tally, uint64_t threads);
extern void critrank_collect(const void *buffer, const void *spec, const void *run, uint64_t *out, uint64_t *found,
                             uint32_t limit, uint32_t pattern_b, uint64_t threads);

#define THREADS 64

void fake_fill(void **a) { critrank_fill(*(void **)a[0], a[1], a[2], *(int *)a[3], THREADS); }

/* On the host a tally is written, on a GPU it is merged. */
void fake_check(void **a) {
  uint64_t mine[6], *all = *(uint64_t **)a[3];
  critrank_check(*(void **)a[0], a[1], a[2], mine, THREADS);
  for (int i = 0; i < 6; i += 3) {
    all[i] += mine[i];
    if (mine[i + 1] < all[i + 1]) all[i + 1] = mine[i + 1];
    if (mine[i + 2] > all[i + 2]) all[i + 2] = mine[i + 2];
  }
}

void fake_collect(void **a) {
  critrank_collect(*(void **)a[0], a[1], a[2], *(uint64_t **)a[3], *(uint64_t **)a[4], *(uint32_t *)a[5], *(uint32_t *)a[6], THREADS);
}
