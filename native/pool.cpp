// The thread pool: condition variables, restarted after a fork.
#include "pool.hpp"

#include "tape.hpp"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tinsmith {
namespace {

std::atomic<int> awake{0};

inline void pause() {
#if defined(__SSE__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Looks for what another thread is about to do; false where that takes longer than waking up.
template <typename Condition>
bool soon(const Condition& holds) {
  for (int i = 0; i < 1500 && awake.load(std::memory_order_relaxed) > 0; i++) {
    if (holds()) return true;
    pause();
  }
  return false;
}

// IEEE defaults (round to nearest, denormals kept) while alive.
class FloatDefaults {
 public:
#if defined(__SSE__)
  FloatDefaults() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~FloatDefaults() { _mm_setcsr(saved_); }
 private:
  unsigned saved_;
#elif defined(__aarch64__)
  FloatDefaults() { asm volatile("mrs %0, fpcr" : "=r"(saved_)); asm volatile("msr fpcr, %0" ::"r"(uint64_t{0})); }
  ~FloatDefaults() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }
 private:
  uint64_t saved_ = 0;
#endif
};

class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {
    for (int t = 1; t < threads_; t++) workers_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
  }
  // The caller starts at once and workers join as they wake: a late one costs nothing.
  void run(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      count_ = count;
      chunk_ = count / (threads_ * 4) > 1 ? count / (threads_ * 4) : 1;
      next_.store(0);
      open_ = true;
      generation_++;
    }
    wake_.notify_all();
    take(body);
    soon([this] { return inside_.load() == 0; });
    std::unique_lock<std::mutex> lock(mutex_);
    open_ = false;
    done_.wait(lock, [this] { return inside_ == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  int threads() const { return threads_; }

 private:
  // A body that throws (out of memory) ends the run; its exception waits until no thread is inside the body.
  void take(const std::function<void(int64_t, int64_t)>& body) {
    FloatDefaults defaults;
    try {
      for (;;) {
        const int64_t begin = next_.fetch_add(chunk_);
        if (begin >= count_) return;
        body(begin, begin + chunk_ < count_ ? begin + chunk_ : count_);
      }
    } catch (...) {
      next_.store(count_);
      std::lock_guard<std::mutex> lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
  void work() {
    uint64_t seen = 0;
    for (;;) {
      soon([&] { return stop_ || generation_ != seen; });
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      if (!open_) continue;
      inside_++;
      const auto* body = body_;
      lock.unlock();
      take(*body);
      lock.lock();
      if (--inside_ == 0) done_.notify_one();
    }
  }

  const int threads_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  int64_t count_ = 0, chunk_ = 1;
  std::atomic<int64_t> next_{0};
  std::atomic<int> inside_{0};
  std::atomic<uint64_t> generation_{0};
  bool open_ = false;
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;
};

// Never destroyed: worker threads must not be joined while the interpreter is going down.
std::mutex* entry = new std::mutex;
Pool* pool = nullptr;
int wanted = 1;

// After a fork the workers are gone and the locks may be held: the child starts anew.
void forget_after_fork() {
  entry = new std::mutex;
  pool = nullptr;
  awake = 0;
}

}  // namespace

void parallel(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
  Tape::note_work();
  if (count <= 0) return;
  std::unique_lock<std::mutex> lock(*entry);
  if (wanted == 1 || count == 1) {
    lock.unlock();  // several threads of Python may compute at once, each by itself
    FloatDefaults defaults;
    body(0, count);
    return;
  }
  if (pool == nullptr || pool->threads() != wanted) {
    static const int registered = pthread_atfork(nullptr, nullptr, forget_after_fork);
    (void)registered;
    delete pool;
    pool = new Pool(wanted);
  }
  pool->run(count, body);
}

Awake::Awake() { awake.fetch_add(1); }
Awake::~Awake() { awake.fetch_sub(1); }
bool Awake::any() { return awake.load(std::memory_order_relaxed) > 0; }

int num_threads() {
  std::lock_guard<std::mutex> lock(*entry);
  return wanted;
}

void set_num_threads(int n) {
  std::lock_guard<std::mutex> lock(*entry);
  wanted = n;
}

float* scratch(int64_t floats) {
  struct Buffer {
    float* data = nullptr;
    int64_t size = 0;
    ~Buffer() { std::free(data); }
  };
  thread_local Buffer buffer;
  if (buffer.size < floats) {
    std::free(buffer.data);
    buffer.size = (floats + 1023) / 1024 * 1024;
    buffer.data = static_cast<float*>(std::aligned_alloc(64, buffer.size * sizeof(float)));
    if (buffer.data == nullptr) {
      buffer.size = 0;
      throw std::bad_alloc();
    }
  }
  return buffer.data;
}

}  // namespace tinsmith
