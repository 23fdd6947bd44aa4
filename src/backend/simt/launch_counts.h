// What a launch did, in the terms of a GPU's profiler: products, barriers, passes through the banks of shared
// memory.
#pragma once

#include <cstdint>

namespace fusetune::backend::simt {

/// Accesses of whole warps to shared memory. It has 32 banks of 4 bytes; one pass serves lanes in order, as
/// many as ask for 128 bytes, and takes another pass for each further word that one bank is asked for.
struct SharedCounts {
  std::int64_t accesses = 0;
  std::int64_t conflicts = 0;  // passes beyond those that the bytes need
};

struct LaunchCounts {
  std::int64_t products = 0;        // mma, of a warp
  std::int64_t block_barriers = 0;  // block_sync, of a block
  std::int64_t grid_barriers = 0;
  SharedCounts matrix_loads;   // ldmatrix: four passes each
  SharedCounts copies;         // the writes of copy_async
  SharedCounts loads, stores;  // all others; checked launches only, which see them
};

}  // namespace fusetune::backend::simt
