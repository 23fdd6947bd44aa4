// The floor of every figure: how fast this machine multiplies and adds when nothing else limits it.
#pragma once

#include <string>

#include "backend/cpu/runner.h"

namespace peers {

/// A kernel in the runner's form that keeps every thread's FMA units busy from registers alone.
struct FmaPeak {
  fusetune::backend::cpu::SegmentFunction function;
  double flops_per_thread;
  std::string name;  // "12 x fma ymm"
};

/// The widest one that this CPU runs.
FmaPeak fma_peak();

}  // namespace peers
