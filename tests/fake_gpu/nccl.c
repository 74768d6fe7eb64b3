/* A libnccl for tests without a GPU: one or more ranks of one process, data moved by memcpy when a call or its group
 * ends. It checks the arguments that NCCL checks. Built with -D to be another version or to misbehave:
 * VERSION=n (22803), ASYNC=code (after the first operation), OLD (no ncclMemAlloc), WITHOUT_SEND (a symbol missing),
 * REFUSE_INIT=code, NULL_STREAM (accept it), NULL_HANDLE (registration that does nothing), NO_NATIVE (no calls of 2.28),
 * NO_ESTIMATE (a simulation that tells none), FAR (the other ranks are other processes, and no data moves). Reductions
 * are done for one rank only, where they are copies. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 22803
#endif
#ifndef ASYNC
#define ASYNC 0
#endif
#ifndef REFUSE_INIT
#define REFUSE_INIT 0
#endif

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, MAGIC = 0x6e63, MOST_RANKS = 16, MOST_OPS = 1024 };
enum call { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, SEND, RECV };

struct comm { int magic, rank, ranks, premul, registered; };
struct config { size_t size; unsigned magic, version; int blocking, rest[19]; };
struct id { char bytes[128]; };
struct op { enum call call; const char *from; char *to; size_t bytes; int root; struct comm *comm; };

static struct comm *comms[MOST_RANKS];
static struct op queue[MOST_OPS];
static int queued, depth, operations, joined, announced;
static char last[256];

#define FAIL(code, text) do { snprintf(last, sizeof last, "%s", text); return code; } while (0)
#define NEED(condition, text) do { if (!(condition)) FAIL(INVALID_ARGUMENT, text); } while (0)

static size_t width(int type) {
  static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < 12 ? widths[type] : 0;
}

/* Runs all queued operations; ranks of one process see each other's entries. */
static int run_queue(void) {
#ifdef FAR
  queued = 0;
  return SUCCESS;
#endif
  static int taken[MOST_OPS];
  memset(taken, 0, sizeof taken);
  for (int i = 0; i < queued; i++) {
    struct op *o = &queue[i];
    int me = o->comm->rank, ranks = o->comm->ranks;
    switch (o->call) {
      case ALL_REDUCE: case REDUCE: case REDUCE_SCATTER:
        if (ranks != 1) FAIL(INVALID_USAGE, "the fake libnccl reduces with one rank only");
        memmove(o->to, o->from, o->bytes);
        break;
      case BROADCAST:
        for (int k = 0; k < queued; k++)
          if (queue[k].call == BROADCAST && queue[k].comm->rank == o->root && !taken[k]) memmove(o->to, queue[k].from, o->bytes);
        break;
      case ALL_GATHER:
        for (int k = 0; k < queued; k++)
          if (queue[k].call == ALL_GATHER) memmove(o->to + queue[k].comm->rank * o->bytes, queue[k].from, o->bytes);
        break;
      case RECV: {
        int found = -1;
        for (int k = 0; k < queued && found < 0; k++)
          if (!taken[k] && queue[k].call == SEND && queue[k].comm->rank == o->root && queue[k].root == me) found = k;
        if (found < 0 || queue[found].bytes != o->bytes) FAIL(INVALID_USAGE, "a receive without its send");
        taken[found] = 1;
        memmove(o->to, queue[found].from, o->bytes);
        break;
      }
      case SEND: break;
    }
  }
  for (int i = 0; i < queued; i++)
    if (queue[i].call == SEND && !taken[i]) FAIL(INVALID_USAGE, "a send without its receive");
  queued = 0;
  return SUCCESS;
}

static int enqueue(enum call call, const void *from, void *to, size_t count, int type, int root, struct comm *comm, void *stream) {
  NEED(comm && comm->magic == MAGIC, "the communicator is not alive");
#ifndef NULL_STREAM
  NEED(stream, "no stream");
#endif
  NEED(width(type), "no such type");
  NEED(root >= 0 && root < comm->ranks, "no such root or peer");
  NEED((from || call == RECV) && (to || call == SEND), "a null buffer");
  if (queued == MOST_OPS) FAIL(INVALID_USAGE, "too many operations in a group");
  queue[queued++] = (struct op){call, from, to, count * width(type), root, comm};
  operations++;
  return depth ? SUCCESS : run_queue();
}

static int check_op(int op, struct comm *comm) {
  NEED(comm && comm->magic == MAGIC, "the communicator is not alive");
  NEED((op >= 0 && op <= 4) || (op == 100 && comm->premul), "no such reduction");
  return SUCCESS;
}
#define NEED_OP do { int checked = check_op(op, comm); if (checked) return checked; } while (0)

/* As debug.cc: the file is made anew once, and INIT lines are flushed one by one. */
static void say_connection(int rank, int peer) {
  static FILE *file;
  const char *level = getenv("NCCL_DEBUG"), *subsystems = getenv("NCCL_DEBUG_SUBSYS"), *name = getenv("NCCL_DEBUG_FILE");
  if (!level || strcmp(level, "INFO") || !name || (subsystems && !strstr(subsystems, "INIT"))) return;
  if (!file && !(file = fopen(name, "w"))) return;
  setlinebuf(file);
  for (int channel = 0; channel < 2; channel++)
    fprintf(file, "fake:1:2 [%d] NCCL INFO Channel %02d/0 : %d[%d] -> %d[%d] via P2P/CUMEM\n", rank, channel, rank, rank, peer, peer);
}

int ncclGetVersion(int *version) { *version = VERSION; return SUCCESS; }
int ncclGetUniqueId(struct id *id) { memset(id, 0xee, sizeof *id); return SUCCESS; }
int ncclCommInitRankConfig(struct comm **comm, int ranks, struct id id, int rank, const struct config *config) {
  if (REFUSE_INIT) FAIL(REFUSE_INIT, "Duplicate GPU detected");
  NEED(config && config->magic == 0xcafebeef && config->size >= 48 && config->version >= 21700, "a configuration that was not initialised");
  NEED(config->blocking == 1, "a communicator that does not block");
  NEED((unsigned char)id.bytes[0] == 0xee && (unsigned char)id.bytes[127] == 0xee, "another id");
  NEED(ranks >= 1 && ranks <= MOST_RANKS && rank >= 0 && rank < ranks && !comms[rank], "a rank that cannot be");
#ifndef FAR
  if (ranks > 1 && !depth) FAIL(INVALID_USAGE, "several ranks of one process must be grouped");
#endif
  *comm = comms[rank] = calloc(1, sizeof **comm);
  **comm = (struct comm){MAGIC, rank, ranks, 0, 0};
  announced = ranks;
  if (ranks > 1) say_connection(rank, (rank + 1) % ranks);
  joined++;
  return SUCCESS;
}
static int leave(struct comm *comm) {
  NEED(comm && comm->magic == MAGIC, "the communicator is not alive");
  comm->magic = 0;
  comms[comm->rank] = NULL;
  if (!--joined) announced = 0;
  return SUCCESS;
}
int ncclCommDestroy(struct comm *comm) { NEED(!comm->premul, "a reduction was not destroyed"); NEED(!comm->registered, "a buffer is still registered"); return leave(comm); }
int ncclCommAbort(struct comm *comm) { return leave(comm); }
int ncclCommGetAsyncError(struct comm *comm, int *code) {
  NEED(comm && comm->magic == MAGIC, "the communicator is not alive");
  *code = operations ? ASYNC : SUCCESS;
  return SUCCESS;
}
const char *ncclGetErrorString(int code) { return code == INVALID_USAGE ? "invalid usage" : code == INVALID_ARGUMENT ? "invalid argument" : "some error"; }
const char *ncclGetLastError(struct comm *comm) { (void)comm; return last; }

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct comm *comm) {
  NEED(comm && comm->magic == MAGIC, "the communicator is not alive");
  NEED(scalar && width(type) && residence == 1, "a scalar that cannot be");
  NEED(!comm->premul, "the last reduction was not destroyed");
  comm->premul = 1;
  *op = 100;
  return SUCCESS;
}
int ncclRedOpDestroy(int op, struct comm *comm) { NEED(op == 100 && comm->premul, "no such reduction"); comm->premul = 0; return SUCCESS; }

int ncclGroupStart(void) { depth++; return SUCCESS; }
int ncclGroupEnd(void) {
  if (depth == 0) FAIL(INVALID_USAGE, "a group that was never opened");
  if (--depth) return SUCCESS;
#ifndef FAR
  if (joined != announced) FAIL(INVALID_USAGE, "not all ranks joined");
#endif
  return run_queue();
}

#if VERSION >= 22200
/* As NCCL: the group's collectives are forgotten and its sends stay queued. The estimate is that of the last. */
struct sim { size_t size; unsigned magic, version; float us; };
int ncclGroupSimulateEnd(struct sim *sim) {
  if (depth == 0) FAIL(INVALID_USAGE, "a group that was never opened");
  if (--depth) return SUCCESS;
  NEED(sim && sim->magic == 0x74685283 && sim->size == 24 && sim->version == VERSION && sim->us == -1.0f, "ncclSimInfo_t argument not initialized");
  int kept = 0;
  for (int i = 0; i < queued; i++) {
    if (queue[i].comm->ranks == 1) FAIL(INVALID_USAGE, "one rank's operation is run, not simulated");
    if (queue[i].call == SEND || queue[i].call == RECV) queue[kept++] = queue[i];
#ifndef NO_ESTIMATE
    else sim->us = 10 + queue[i].bytes / 1000.0f;
#endif
  }
  queued = kept;
  return SUCCESS;
}
#endif

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct comm *comm, void *stream) { NEED_OP; return enqueue(ALL_REDUCE, from, to, count, type, 0, comm, stream); }
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, struct comm *comm, void *stream) { NEED_OP; return enqueue(REDUCE_SCATTER, from, to, count, type, 0, comm, stream); }
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, struct comm *comm, void *stream) { NEED_OP; return enqueue(REDUCE, from, to, count, type, root, comm, stream); }
int ncclAllGather(const void *from, void *to, size_t count, int type, struct comm *comm, void *stream) { return enqueue(ALL_GATHER, from, to, count, type, 0, comm, stream); }
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct comm *comm, void *stream) { return enqueue(BROADCAST, from, to, count, type, root, comm, stream); }
#ifndef WITHOUT_SEND
int ncclSend(const void *from, size_t count, int type, int peer, struct comm *comm, void *stream) { return enqueue(SEND, from, NULL, count, type, peer, comm, stream); }
int ncclRecv(void *to, size_t count, int type, int peer, struct comm *comm, void *stream) { return enqueue(RECV, NULL, to, count, type, peer, comm, stream); }
#endif

#ifndef OLD
int ncclMemAlloc(void **memory, size_t bytes) { NEED(memory && bytes, "no bytes"); *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096); return *memory ? SUCCESS : 1; }
int ncclMemFree(void *memory) { free(memory); return SUCCESS; }
#endif

/* A handle is the buffer's address. */
static int enter_buffer(struct comm *comm, void *buffer, size_t bytes, void **handle) {
  NEED(comm && comm->magic == MAGIC, "the communicator is not alive");
  NEED(buffer && bytes && handle && !*handle, "a buffer or handle that cannot be");
#ifndef NULL_HANDLE
  *handle = buffer;
  comm->registered++;
#endif
  return SUCCESS;
}
static int leave_buffer(struct comm *comm, void *handle) {
  NEED(comm && comm->magic == MAGIC && handle && comm->registered > 0, "no such registration");
  comm->registered--;
  return SUCCESS;
}
#if VERSION >= 21900
int ncclCommRegister(struct comm *comm, void *buffer, size_t bytes, void **handle) { return enter_buffer(comm, buffer, bytes, handle); }
int ncclCommDeregister(struct comm *comm, void *handle) { return leave_buffer(comm, handle); }
#endif
#if VERSION >= 22700
int ncclCommWindowRegister(struct comm *comm, void *buffer, size_t bytes, void **handle, int flags) {
  NEED(flags == 1 && depth, "a window that is not symmetric, or not grouped");
  return enter_buffer(comm, buffer, bytes, handle);
}
int ncclCommWindowDeregister(struct comm *comm, void *handle) { return leave_buffer(comm, handle); }
#endif

#if VERSION >= 22800 && !defined(NO_NATIVE)
int ncclAlltoAll(const char *from, char *to, size_t count, int type, struct comm *comm, void *stream) {
  int code = SUCCESS;
  depth++;
  for (int peer = 0; peer < comm->ranks && !code; peer++) {
    size_t at = peer * count * width(type);
    code = enqueue(SEND, from + at, NULL, count, type, peer, comm, stream);
    if (!code) code = enqueue(RECV, NULL, to + at, count, type, peer, comm, stream);
  }
  depth--;
  return code ? code : depth ? SUCCESS : run_queue();
}
int ncclGather(const char *from, char *to, size_t count, int type, int root, struct comm *comm, void *stream) {
  depth++;
  int code = enqueue(SEND, from, NULL, count, type, root, comm, stream);
  for (int peer = 0; comm->rank == root && peer < comm->ranks && !code; peer++)
    code = enqueue(RECV, NULL, to + peer * count * width(type), count, type, peer, comm, stream);
  depth--;
  return code ? code : depth ? SUCCESS : run_queue();
}
int ncclScatter(const char *from, char *to, size_t count, int type, int root, struct comm *comm, void *stream) {
  int code = SUCCESS;
  depth++;
  for (int peer = 0; comm->rank == root && peer < comm->ranks && !code; peer++)
    code = enqueue(SEND, from + peer * count * width(type), NULL, count, type, peer, comm, stream);
  if (!code) code = enqueue(RECV, NULL, to, count, type, root, comm, stream);
  depth--;
  return code ? code : depth ? SUCCESS : run_queue();
}
#endif
