// Holds a stream until the host has opened this gate, or for so many ns at most, and then says so: a host that never
// opens it must not hold a GPU. Compiles with NVRTC alone (ci/ptx.sh).

__device__ __forceinline__ unsigned long long now_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

// page[0], written by the host: the newest ticket that may pass. page[1]: the newest one that did not wait for it.
extern "C" __global__ void critrank_gate(volatile unsigned *page, unsigned ticket, unsigned long long most_ns) {
  unsigned long long begin = now_ns();
  while ((int)(page[0] - ticket) < 0) {
    if (now_ns() - begin > most_ns) {
      page[1] = ticket;
      __threadfence_system();
      return;
    }
  }
}
