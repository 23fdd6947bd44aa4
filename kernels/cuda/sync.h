// Hand-over between stages of one kernel by rows: a consumer's task waits for the rows it reads, not for the
// whole grid.
//
// Rows are tokens, in groups of 64. A producer's task adds, to the counter of every group it touches, how
// many of the group's rows it wrote; a group is complete when each of its rows was written `parts` times
// (column tiles, heads). Only between blocks that are all resident: every block finishes its tasks of one
// stage before it waits in the next, so that no wait can be for oneself.
#ifndef FUSETUNE_KERNELS_CUDA_SYNC_H
#define FUSETUNE_KERNELS_CUDA_SYNC_H

namespace ft {

constexpr int kRowGroup = 64;

struct RowCounters {
  u32* counters;  // one per group
  int rows;       // of all tokens

  /// This block has written rows [begin, end).
  FT_INLINE void publish(int begin, int end) const {
    for (int g = begin / kRowGroup; g * kRowGroup < end; ++g)
      counter_add(counters + g, u32(min_of(end, (g + 1) * kRowGroup) - max_of(begin, g * kRowGroup)));
  }
  /// Until all of the rows [begin, end) have been written `parts` times.
  FT_INLINE void await(int begin, int end, int parts) const {
    for (int g = begin / kRowGroup; g * kRowGroup < end; ++g)
      counter_wait(counters + g, u32(min_of(rows, (g + 1) * kRowGroup) - g * kRowGroup) * u32(parts));
  }
};

/// Between two barriers a stage's tasks are free: nothing to wait for, nobody to tell.
struct Free {
  FT_INLINE void before(int, int) const {}
  FT_INLINE void after(int, int) const {}
};

/// A task waits for its input rows, each written `parts` times by the stage before, and publishes its own.
/// The first stage waits for nothing and the last one tells nobody: null counters.
struct Chain {
  u32 *from, *to;
  int rows;   // of all tokens
  int parts;  // of the stage before
  FT_INLINE void before(int begin, int end) const {
    if (from != nullptr) RowCounters{from, rows}.await(begin, end, parts);
  }
  FT_INLINE void after(int begin, int end) const {
    if (to != nullptr) RowCounters{to, rows}.publish(begin, end);
  }
};

/// At a kernel's end, by all blocks: the last one sets `count` counters back to zero. `done` counts blocks;
/// `flag` is a word of shared memory.
template <int Threads>
FT_INLINE void reset_counters(u32* counters, int count, u32* done, u32* flag) {
  if (!counter_last(done, u32(grid_blocks()), flag)) return;
  for (int i = thread_index(); i < count; i += Threads) counters[i] = 0;
}

}  // namespace ft

#endif
