// The kernels as C++: ts_emulate runs one launch over CUDA's grid on one CPU thread: a block's threads are fibers that meet
// at __syncthreads, blocks come one after another. For tests only.
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
static struct Dim { unsigned x, y, z; } threadIdx, blockIdx, blockDim;
#define __global__
#define __device__
#define __forceinline__ inline
#define __constant__ static const
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
struct float4 { float x, y, z, w; };
struct ushort4 { unsigned short x, y, z, w; };
static inline float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
namespace { void back(); }
#define __syncthreads() back()
#include "attention.cu"
#include "rows.cu"
#include "products.cu"
#include "products_bf16.cu"
#include "products_nf4.cu"
#include "state.cu"
#include "vocabulary.cu"

namespace {
constexpr size_t kStack = 128 * 1024;
struct Any { char bytes[512]; };  // as long as any arguments: passed in memory, of which a kernel reads its own
struct Fiber { ucontext_t start; jmp_buf at; bool begun, done; };
Fiber fibers[1024];  // begun once, then used again by every block
jmp_buf scheduler;
size_t current;
void (*body)(Any);
const Any* given;
int order;
size_t phase = 0;

// A context starts a fiber, and jumps switch between them: swapcontext alone is two system calls a switch.
__attribute__((noinline)) void back() {
  if (!_setjmp(fibers[current].at)) _longjmp(scheduler, 1);
}
void enter() {
  for (;; back()) {
    body(*given);
    fibers[current].done = true;
  }
}
__attribute__((noinline)) void into(size_t t) {
  if (_setjmp(scheduler)) return;
  if (fibers[t].begun) _longjmp(fibers[t].at, 1);
  fibers[t].begun = true;
  setcontext(&fibers[t].start);
}

void block(size_t threads) {
  for (size_t t = 0; t < threads; t++) {
    fibers[t].done = false;
    if (fibers[t].begun) continue;
    ucontext_t& start = fibers[t].start;
    getcontext(&start);
    start.uc_stack.ss_sp = aligned_alloc(64, kStack);
    start.uc_stack.ss_size = kStack;
    makecontext(&start, enter, 0);
  }
  // Between two barriers threads run in an order that is free; another one each time shows a barrier that is missing.
  for (bool alive = true; alive; phase += 31) {
    alive = false;
    for (size_t at = 0; at < threads; at++) {
      const size_t t = order == 0 ? at : order == 1 ? threads - 1 - at : (at * 97 + phase) % threads;
      if (fibers[t].done) continue;
      current = t;
      threadIdx = {(unsigned)t, 0, 0};
      into(t);
      alive |= !fibers[t].done;
    }
  }
}
}  // namespace

// `which` order of threads: 0 ascending, 1 descending, 2 another each time.
extern "C" void ts_emulate(void (*kernel)(Any), const unsigned* grid, unsigned threads, const Any* args, int which) {
  order = which;
  body = kernel;
  given = args;
  blockDim = {threads, 1, 1};
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        blockIdx = {x, y, z};
        block(threads);
      }
}
