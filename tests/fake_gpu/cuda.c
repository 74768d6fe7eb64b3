/* A libcuda for tests without a GPU: host memory for device memory, every operation complete when its call returns.
 * It checks what the real one requires (cuInit first, a current context, live handles of that context) and, when
 * the last context is released, that nothing is left over. Built with -D to misbehave:
 * NO_CUBIN, NO_GRAPHS, DEVICES=n (1), STALL (streams never finish), INIT=code, TOTAL=bytes, BAD_PTX. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef TOTAL
#define TOTAL (1ull << 30)
#endif

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
       INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900,
       LEFT_OVER = 999 };
enum kind { CONTEXT = 0xc1, STREAM, EVENT, MODULE, GRAPH, GRAPH_EXEC };

struct object { enum kind kind; struct object *context; int device, retained; struct timespec at; int stamped, asked, capturing; };

static struct object contexts[DEVICES > 0 ? DEVICES : 1];
static struct object *current;
static int initialised, live;
static size_t used;

#define NEED(condition, code) do { if (!(condition)) return code; } while (0)
#define NEED_CONTEXT NEED(initialised, NOT_INITIALIZED); NEED(current && current->retained, INVALID_CONTEXT)

static int is(const struct object *o, enum kind kind) { return o && o->kind == kind; }

static int make(struct object **out, enum kind kind) {
  NEED_CONTEXT;
  NEED(out, INVALID_VALUE);
  *out = calloc(1, sizeof **out);
  (*out)->kind = kind;
  (*out)->context = current;
  live++;
  return OK;
}

static int unmake(struct object *o, enum kind kind) {
  NEED(is(o, kind), INVALID_HANDLE);
  o->kind = 0; /* kept, so that a second destruction is seen */
  live--;
  return OK;
}

/* A stream, or for null the current context's default stream. */
static struct object *of(struct object *stream) {
  static struct object defaults[DEVICES > 0 ? DEVICES : 1];
  if (stream || !current) return stream;
  struct object *o = &defaults[current->device];
  o->kind = STREAM;
  o->context = current;
  return o;
}

int cuInit(unsigned flags) {
  NEED(flags == 0, INVALID_VALUE);
  NEED(DEVICES > 0, NO_DEVICE);
  initialised = INIT == 0;
  return INIT;
}
int cuGetErrorName(int code, const char **name) { *name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE"; return OK; }
int cuGetErrorString(int code, const char **text) {
  if (code > 1000) { *text = NULL; return INVALID_VALUE; }
  *text = code == LEFT_OVER ? "something was not destroyed" : "said by the fake libcuda";
  return OK;
}
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuDeviceGetCount(int *count) { NEED(initialised, NOT_INITIALIZED); *count = DEVICES; return OK; }
int cuDeviceGet(int *device, int index) { NEED(index >= 0 && index < DEVICES, INVALID_DEVICE); *device = index; return OK; }
int cuDeviceGetName(char *name, int length, int device) { NEED(device < DEVICES, INVALID_DEVICE); snprintf(name, length, "Fake GPU %d", device); return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 16: *value = 4; return OK;              /* multiprocessors */
    case 33: *value = 0x1b + device; return OK;  /* PCI bus */
    case 34: case 50: *value = 0; return OK;     /* PCI device, domain */
    case 75: *value = 9; return OK;              /* compute capability */
    case 76: *value = 0; return OK;
    default: return INVALID_VALUE;
  }
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0xa0 + device, 16); return OK; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }

int cuDevicePrimaryCtxRetain(struct object **context, int device) {
  NEED(initialised, NOT_INITIALIZED);
  NEED(device >= 0 && device < DEVICES, INVALID_DEVICE);
  contexts[device].kind = CONTEXT;
  contexts[device].device = device;
  contexts[device].retained++;
  *context = &contexts[device];
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  NEED(contexts[device].retained > 0, INVALID_CONTEXT);
  contexts[device].retained--;
  for (int i = 0; i < DEVICES; i++) if (contexts[i].retained) return OK;
  NEED(live == 0 && used == 0, LEFT_OVER);
  return OK;
}
int cuCtxSetCurrent(struct object *context) { NEED(is(context, CONTEXT) && context->retained, INVALID_CONTEXT); current = context; return OK; }

int cuMemGetInfo_v2(size_t *freed, size_t *total) { NEED_CONTEXT; *total = TOTAL - current->device; *freed = *total - used; return OK; }
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  NEED_CONTEXT;
  NEED(bytes > 0, INVALID_VALUE);
  NEED(bytes <= TOTAL - used, OUT_OF_MEMORY);
  size_t *memory = malloc(bytes + 64);
  NEED(memory, OUT_OF_MEMORY);
  memory[0] = bytes;
  *address = (uint64_t)(uintptr_t)memory + 64;
  used += bytes;
  return OK;
}
int cuMemFree_v2(uint64_t address) { size_t *memory = (size_t *)(uintptr_t)(address - 64); used -= memory[0]; free(memory); return OK; }

int cuStreamCreate(struct object **stream, unsigned flags) { NEED(flags == 1, INVALID_VALUE); return make(stream, STREAM); }
int cuStreamDestroy_v2(struct object *stream) { return unmake(stream, STREAM); }
/* The newest gate: what is behind it runs at once, but is not done before the gate is open. */
static volatile unsigned *gate;
static unsigned ticket;
static void fake_gate(void **a) { gate = *(unsigned **)a[0]; ticket = *(unsigned *)a[1]; }

#ifndef NO_PAGES
int cuMemHostAlloc(void **page, size_t bytes, unsigned flags) {
  NEED_CONTEXT;
  NEED(bytes == 8 && flags == 3, INVALID_VALUE);
  *page = calloc(1, bytes);
  live++;
  return OK;
}
int cuMemHostGetDevicePointer_v2(uint64_t *address, void *page, unsigned flags) { NEED(!flags, INVALID_VALUE); *address = (uintptr_t)page; return OK; }
int cuMemFreeHost(void *page) { NEED_CONTEXT; gate = gate == page ? NULL : gate; free(page); live--; return OK; }
#endif

int cuStreamQuery(struct object *stream) {
  stream = of(stream);
  NEED(is(stream, STREAM), INVALID_HANDLE);
  if (gate && (int)(*gate - ticket) < 0) return NOT_READY;
  NEED(!stream->capturing, CAPTURE_UNSUPPORTED);
#ifdef STALL
  return NOT_READY;
#else
  return stream->asked++ % 2 ? OK : NOT_READY; /* busy at every other question, so that waiting is covered */
#endif
}
int cuStreamSynchronize(struct object *stream) { stream = of(stream); NEED(is(stream, STREAM), INVALID_HANDLE); NEED(!stream->capturing, CAPTURE_UNSUPPORTED); return OK; }

/* Graphs: order and life of the handles only; what is captured runs at once, and a launch runs nothing. */
#ifndef NO_GRAPHS
int cuStreamBeginCapture_v2(struct object *stream, int mode) {
  NEED(is(stream, STREAM) && stream->context == current, INVALID_HANDLE);
  NEED(mode == 1 && !stream->capturing, INVALID_VALUE);
  stream->capturing = 1;
  return OK;
}
int cuStreamEndCapture(struct object *stream, struct object **graph) {
  NEED(is(stream, STREAM) && stream->capturing, INVALID_HANDLE);
  stream->capturing = 0;
  return make(graph, GRAPH);
}
int cuGraphInstantiateWithFlags(struct object **ready, struct object *graph, unsigned long long flags) {
  NEED(is(graph, GRAPH) && graph->context == current && flags == 0, INVALID_VALUE);
  return make(ready, GRAPH_EXEC);
}
int cuGraphLaunch(struct object *ready, struct object *stream) {
  NEED(is(ready, GRAPH_EXEC) && is(stream, STREAM) && ready->context == stream->context && !stream->capturing, INVALID_HANDLE);
  return OK;
}
int cuGraphExecDestroy(struct object *ready) { return unmake(ready, GRAPH_EXEC); }
int cuGraphDestroy(struct object *graph) { return unmake(graph, GRAPH); }
#endif

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct object *stream) { stream = of(stream); NEED(is(stream, STREAM), INVALID_HANDLE); memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes); return OK; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct object *stream) { return cuMemcpyDtoDAsync_v2(to, (uint64_t)(uintptr_t)from, bytes, stream); }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct object *stream) { return cuMemcpyDtoDAsync_v2((uint64_t)(uintptr_t)to, from, bytes, stream); }

int cuEventCreate(struct object **event, unsigned flags) { NEED(flags == 0, INVALID_VALUE); return make(event, EVENT); }
int cuEventDestroy_v2(struct object *event) { return unmake(event, EVENT); }
int cuEventRecord(struct object *event, struct object *stream) {
  stream = of(stream);
  NEED(is(event, EVENT) && is(stream, STREAM) && event->context == stream->context, INVALID_HANDLE);
  clock_gettime(CLOCK_MONOTONIC, &event->at);
  event->stamped = 1;
  return OK;
}
int cuEventElapsedTime(float *ms, struct object *from, struct object *to) {
  NEED(is(from, EVENT) && is(to, EVENT) && from->stamped && to->stamped, INVALID_HANDLE);
  *ms = (to->at.tv_sec - from->at.tv_sec) * 1e3f + (to->at.tv_nsec - from->at.tv_nsec) * 1e-6f;
  return OK;
}

int cuModuleLoadDataEx(struct object **module, const char *image, unsigned count, int *options, void **values) {
  if (!count && image && !memcmp(image, "\177ELF", 4)) { /* a cubin */
    NEED((uintptr_t)image % 8 == 0 && !options && !values, INVALID_VALUE);
#if defined(NO_CUBIN) || defined(BAD_PTX)
    return 209;
#endif
    return make(module, MODULE);
  }
  NEED(count == 2 && options[0] == 5 && options[1] == 6 && (uintptr_t)values[1] >= 64, INVALID_VALUE);
  NEED(image, INVALID_VALUE);
#ifdef BAD_PTX
  snprintf(values[0], (size_t)values[1], "ptxas fatal   : a reason\nin line 1");
  return INVALID_PTX;
#endif
  return make(module, MODULE);
}
int cuModuleUnload(struct object *module) { return unmake(module, MODULE); }

/* Kernels are plain functions of a file that is linked in: each runs its whole grid. */
struct kernel { const char *name; void (*run)(void **arguments); };
#define KERNEL_LIST(X) X(fill_rest) X(fill_loop) X(check_rest) X(check_loop) X(collect)
#ifdef KERNELS
#define DECLARE(name) extern void fake_##name(void **);
#else
#define DECLARE(name) static void fake_##name(void **a) { (void)a; }
#endif
KERNEL_LIST(DECLARE)
/* By the beginning of their names, in this order: the loops of all forms are one function here. */
static struct kernel kernels[] = {{"critrank_fill_rest", fake_fill_rest}, {"critrank_fill_", fake_fill_loop},
                                  {"critrank_check_rest", fake_check_rest}, {"critrank_check_", fake_check_loop},
                                  {"critrank_collect", fake_collect}, {"critrank_gate", fake_gate}};

int cuModuleGetFunction(struct kernel **kernel, struct object *module, const char *name) {
  NEED(is(module, MODULE), INVALID_HANDLE);
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    if (!strncmp(kernels[i].name, name, strlen(kernels[i].name))) { *kernel = &kernels[i]; return OK; }
  return NOT_FOUND;
}
int cuLaunchKernel(struct kernel *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, struct object *stream, void **arguments, void **extra) {
  NEED_CONTEXT;
  stream = of(stream);
  NEED(is(stream, STREAM) && stream->context == current, INVALID_HANDLE);
  NEED(gx >= 1 && gy == 1 && gz == 1 && bx >= 1 && bx <= 1024 && by == 1 && bz == 1 && !shared && !extra, INVALID_VALUE);
  kernel->run(arguments);
  return OK;
}
