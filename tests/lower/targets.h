// The machine that lower's tests assume.
#pragma once

#include "lower/schedule.h"

namespace fusetune::lower {

inline CpuTarget avx2() {
  CpuTarget target;
  target.isa = Isa::avx2;
  target.threads = 2;
  return target;
}

}  // namespace fusetune::lower
