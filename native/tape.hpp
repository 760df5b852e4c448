// Calls of kernels that are recorded once and made again: a step of decoding without the interpreter between its kernels.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "pool.hpp"

namespace tinsmith {

class Tape {
 public:
  // From here to end(), what this thread calls is carried out and recorded.
  void begin() { current() = this; }
  // False if anything was computed that is not on the tape.
  bool end() {
    current() = nullptr;
    return complete_;
  }
  void replay() const {
    Awake awake;
    for (const auto& call : calls_) call();
  }
  // Carries out a call, and records it where its thread records.
  static void call(std::function<void()> made) {
    Tape* tape = current();
    current() = nullptr;
    try {
      made();
    } catch (...) {
      current() = tape;
      throw;
    }
    current() = tape;
    if (tape) tape->calls_.push_back(std::move(made));
  }
  static bool recording() { return current() != nullptr; }
  // Work outside of a recorded call.
  static void note_work() {
    if (Tape* tape = current()) tape->complete_ = false;
  }

 private:
  static Tape*& current() {
    thread_local Tape* tape = nullptr;
    return tape;
  }
  std::vector<std::function<void()>> calls_;
  bool complete_ = true;
};

// The function, whose calls are recorded with copies of their arguments: arrays keep their memory, matrices are pointers.
template <typename... Arguments>
auto recordable(void (*function)(Arguments...)) {
  return [function](Arguments... arguments) {
    if (Tape::recording()) Tape::call([=] { function(arguments...); });
    else function(arguments...);
  };
}

}  // namespace tinsmith
