// A device on which a test decides what a pass does and how long it takes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backend/executor.h"

namespace fusetune::measure {

class ScriptedSequence : public backend::LaunchSequence {
 public:
  /// `pass` is called with the number of the weight copy.
  explicit ScriptedSequence(std::function<void(int)> pass, int copies = 1)
      : pass_(std::move(pass)), copies_(copies) {}

  int ready() override { return copies_; }
  void run() override { pass_(0); }
  double run_timed(int first, int passes) override {
    const double begin = now();
    for (int pass = 0; pass < passes; ++pass) pass_((first + pass) % copies_);
    return now() - begin;
  }
  backend::StampedRun run_stamped(int copy) override {
    const double begin = now();
    pass_(copy);
    return {{begin, now()}, {}};
  }

 private:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  std::function<void(int)> pass_;
  int copies_;
};

/// One thread, no memory.
class ScriptedExecutor : public backend::Executor {
 public:
  int flushes = 0;

  void write(block::Tensor /*tensor*/, std::span<const double> /*values*/) override {}
  void poison(block::Tensor /*tensor*/) override {}
  std::vector<float> read(block::Tensor /*tensor*/) override { return {}; }
  std::string find_damage() override { return {}; }
  std::unique_ptr<backend::LaunchSequence> load(
      std::span<const backend::CompiledKernel> /*kernels*/) override {
    throw base::InternalError("tests bring their own sequences");
  }
  void flush_caches() override { ++flushes; }
  int threads() const override { return 1; }
};

/// Keeps the processor busy, as kernels do.
inline void spin_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace fusetune::measure
