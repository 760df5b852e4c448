// The kernels as C++: ts_emulate(name, grid, threads, arguments) runs one launch over an emulated grid. For tests only.
#define TS_EMULATE
#include "attention.cu"
namespace of_rows {
#include "rows.cu"
}
#include "gradients.cu"
#include "products.cu"
#include "products_bf16.cu"
#include "products_nf4.cu"
#include "state.cu"
namespace of_vocabulary {
#include "vocabulary.cu"
}

#include <functional>
#include <map>
#include <string>
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
const std::function<void()>* body;
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
  (*body)();
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

template <typename A>
std::function<void(const void*)> calls(void (*kernel)(A)) {
  return [=](const void* args) { kernel(*(const A*)args); };
}
}  // namespace

extern "C" void ts_barrier() { back(); }
extern "C" void ts_order(int which) { order = which; }  // 0 ascending, 1 descending, 2 another each time

extern "C" int ts_emulate(const char* name, const unsigned* grid, unsigned threads, const void* args) {
  static const std::map<std::string, std::function<void(const void*)>> table = {
#define TS_K(NAME) {#NAME, calls(&NAME)}
      TS_K(gemm_nn), TS_K(gemm_nn_small), TS_K(gemm_nt), TS_K(gemm_nt_small), TS_K(gemm_tn), TS_K(gemm_tn_small),
      TS_K(gemm_nn_bf16), TS_K(gemm_nn_bf16_small), TS_K(gemm_nt_bf16), TS_K(gemm_nt_bf16_small),
      TS_K(gemm_nt_nf4), TS_K(gemm_nt_nf4_small), TS_K(few_1), TS_K(few_4), TS_K(few_8),
      TS_K(few_1_bf16), TS_K(few_4_bf16), TS_K(few_8_bf16), TS_K(few_1_nf4), TS_K(few_4_nf4), TS_K(few_8_nf4),
      TS_K(store_slots), TS_K(store_rows), TS_K(attention_few), TS_K(attention_delta), TS_K(attention_dq),
      TS_K(attention_dkv), TS_K(adam), TS_K(sum_squares), TS_K(not_finite), TS_K(nf4_transposed), TS_K(quotients),
      {"attention", [](const void* a) { attention(*(const AttentionArgs*)a); }},
#undef TS_K
#define TS_K(NAME) {#NAME, calls(&of_rows::NAME)}
      TS_K(add_rms_norm), TS_K(rms_norm_backward), TS_K(rotate), TS_K(rotate_backward), TS_K(silu_gate),
      TS_K(silu_gate_backward), TS_K(scale_bias), TS_K(column_chain), TS_K(embed_backward), TS_K(row_dots), TS_K(route),
      TS_K(route_backward), TS_K(row_entropies),
#undef TS_K
#define TS_K(NAME) {#NAME, calls(&of_vocabulary::NAME)}
      TS_K(row_stats), TS_K(choose_row), TS_K(ranked_logprobs), TS_K(gather_logprobs), TS_K(logprob_backward)};
  const auto found = table.find(name);
  if (found == table.end()) return 1;
  const std::function<void()> call = [&] { found->second(args); };
  body = &call;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {threads, 1, 1};
  for (unsigned z = 0; z < grid[2]; z++)
    for (unsigned y = 0; y < grid[1]; y++)
      for (unsigned x = 0; x < grid[0]; x++) {
        blockIdx = {x, y, z};
        block(threads);
      }
  return 0;
}
