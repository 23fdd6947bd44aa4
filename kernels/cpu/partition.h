// Who does what: rows, columns and heads among the threads of a kernel. All divisions are static, so that
// two runs of a kernel do the same arithmetic in the same order.
#ifndef FUSETUNE_KERNELS_CPU_PARTITION_H
#define FUSETUNE_KERNELS_CPU_PARTITION_H

namespace ft {

struct Range {
  long begin, end;
};

/// Part `part` of [0, n) in `parts` contiguous parts whose sizes are multiples of `unit` but the last.
FT_INLINE Range part_of(long n, long part, long parts, long unit) {
  const long units = (n + unit - 1) / unit;
  const long begin = units * part / parts * unit, end = units * (part + 1) / parts * unit;
  return {min(begin, n), min(end, n)};
}

/// Rows of a range in blocks of at most round_up(capacity, tile) rows, sizes a multiple of `tile` but the
/// last and as even as that allows: for_row_blocks([0,256), 96, 6) gives 90, 90, 76.
template <class F>
FT_INLINE void for_row_blocks(Range rows, long capacity, long tile, F f) {
  const long n = rows.end - rows.begin;
  if (n <= 0) return;
  const long blocks = (n + capacity - 1) / capacity;
  const long size = round_up((n + blocks - 1) / blocks, tile);
  for (long r = rows.begin; r < rows.end; r += size) f(r, min(size, rows.end - r));
}

/// A two-dimensional division of a GEMM: each thread gets some rows and some weight panels. As many columns
/// of threads as leave each at least four panels, so that a weight is read by as few threads as possible.
struct GemmPart {
  Range rows, panels;
};
FT_INLINE GemmPart gemm_part(long rows, long panels, int thread, int threads) {
  long across = threads;
  while (across > 1 && (threads % across != 0 || panels < 4 * across)) --across;
  const long down = threads / across;
  return {part_of(rows, thread / across, down, 4), part_of(panels, thread % across, across, 1)};
}

/// Attention tasks of one thread: heads of all batch entries, each cut into `splits` parts by query blocks
/// where there are too few heads to keep the threads busy evenly.
struct HeadTasks {
  long splits, begin, end;  // task t: head t / splits, part t % splits
};
FT_INLINE HeadTasks head_tasks(long heads, long query_blocks, bool may_split, int thread, int threads) {
  long splits = 1;
  if (may_split)
    while (splits < query_blocks && heads * splits % threads != 0 && heads * splits < 8 * threads) ++splits;
  const Range r = part_of(heads * splits, thread, threads, 1);
  return {splits, r.begin, r.end};
}

}  // namespace ft

#endif
