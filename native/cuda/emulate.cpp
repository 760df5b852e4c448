// The kernels as C++: ts_emulate(kernel, grid, threads, arguments) runs one launch over an emulated grid. For tests only.
#define TS_EMULATE
#include "attention.cu"
#include "rows.cu"
#include "gradients.cu"
#include "products.cu"
#include "products_bf16.cu"
#include "products_nf4.cu"
#include "state.cu"
#include "vocabulary.cu"

#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

Dim threadIdx, blockIdx, blockDim, gridDim;

namespace {
constexpr size_t kStack = 128 * 1024;
std::vector<char*> stacks;
std::vector<bool> done;
size_t current;
struct Any { char bytes[512]; };  // as long as any arguments: passed in memory, of which a kernel reads its own
void (*body)(Any);
const Any* given;
int order = 0;
size_t phase = 0;
void enter();
}  // namespace

#if defined(__x86_64__)  // a switch of stacks in a few instructions: a system call each would take most of the time
extern "C" void ts_switch(void** from, void* to);
asm(R"(
.globl ts_switch
ts_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
namespace {
std::vector<void*> fibers;
void* scheduler;
void prepare(size_t t) {
  void** sp = (void**)(stacks[t] + kStack - 64);
  *--sp = nullptr;  // keeps the stack aligned as a call leaves it
  *--sp = (void*)&enter;
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  fibers[t] = sp;
}
void into(size_t t) { ts_switch(&scheduler, fibers[t]); }
void back() { ts_switch(&fibers[current], scheduler); }
}  // namespace
#else
namespace {
std::vector<ucontext_t> fibers;
ucontext_t scheduler;
void prepare(size_t t) {
  getcontext(&fibers[t]);
  fibers[t].uc_stack = {stacks[t], 0, kStack};
  fibers[t].uc_stack.ss_size = kStack;
  makecontext(&fibers[t], enter, 0);
}
void into(size_t t) { swapcontext(&scheduler, &fibers[t]); }
void back() { swapcontext(&fibers[current], &scheduler); }
}  // namespace
#endif

namespace {
void enter() {
  body(*given);
  done[current] = true;
  back();
  abort();
}

void block(size_t threads) {
  while (stacks.size() < threads) stacks.push_back((char*)aligned_alloc(64, kStack));
  fibers.resize(threads);
  done.assign(threads, false);
  for (size_t t = 0; t < threads; t++) prepare(t);
  // Between two barriers threads run in an order that is free; another one each time shows a barrier that is missing.
  for (bool alive = true; alive; phase += 31) {
    alive = false;
    for (size_t at = 0; at < threads; at++) {
      const size_t t = order == 0 ? at : order == 1 ? threads - 1 - at : (at * 97 + phase) % threads;
      if (done[t]) continue;
      current = t;
      threadIdx = {(unsigned)t, 0, 0};
      into(t);
      alive |= !done[t];
    }
  }
}
}  // namespace

extern "C" void ts_barrier() { back(); }
extern "C" void ts_order(int which) { order = which; }  // 0 ascending, 1 descending, 2 another each time

extern "C" void ts_emulate(void (*kernel)(Any), const unsigned* grid, unsigned threads, const Any* args) {
  body = kernel;
  given = args;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {threads, 1, 1};
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        blockIdx = {x, y, z};
        block(threads);
      }
}

#define TS_SIZE(NAME) extern "C" int size_of_##NAME() { return (int)sizeof(NAME); }
TS_SIZE(GemmArgs) TS_SIZE(ColumnArgs) TS_SIZE(EmbedArgs) TS_SIZE(NormArgs) TS_SIZE(NormBackArgs) TS_SIZE(RotateArgs)
TS_SIZE(GateArgs) TS_SIZE(ScaleArgs) TS_SIZE(StoreArgs) TS_SIZE(AttentionArgs) TS_SIZE(AttentionBackArgs) TS_SIZE(StatsArgs)
TS_SIZE(ChooseArgs) TS_SIZE(RankedArgs) TS_SIZE(GatherArgs) TS_SIZE(LogprobBackArgs) TS_SIZE(RouteArgs) TS_SIZE(DotsArgs)
TS_SIZE(AdamArgs) TS_SIZE(SquaresArgs) TS_SIZE(FiniteArgs) TS_SIZE(Nf4Args) TS_SIZE(QuotientArgs)
