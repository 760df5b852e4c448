// Threads that sleep until there is work, and scratch memory of their own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tinsmith {

// Call body(begin, end) over runs that cover [0, count), on the caller and on up to num_threads() - 1 others. Which
// thread takes which run never changes a result. Denormals and rounding are the IEEE defaults inside, whatever the caller set.
void parallel(int64_t count, const std::function<void(int64_t, int64_t)>& body);

// While one lives, threads that wait for the next `parallel` look for it for some microseconds before they sleep: waking
// one takes longer than what a step of a few rows gives it to do.
class Awake {
 public:
  Awake();
  ~Awake();
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;
  static bool any();
};

int num_threads();
void set_num_threads(int n);

// At least `floats` floats owned by the calling thread; contents are undefined.
float* scratch(int64_t floats);

}  // namespace tinsmith
