// The contract between a generated CPU kernel and whoever runs it: fusetune's runner or an exported
// bundle. Plain data, no headers, the same for every kernel of the target.
//
// A kernel is  extern "C" void NAME(const ft_args*, int thread, int threads, ft_barrier*)
// and is called by every one of `threads` threads at once, with FTZ/DAZ set by the caller. The caller
// passes a barrier that it initialised to zero once; kernels leave it reusable.
#ifndef FUSETUNE_KERNELS_CPU_ABI_H
#define FUSETUNE_KERNELS_CPU_ABI_H

/// Attention mask in two levels: tiles of 64 x 64 in CSR form, a bitmap per partial tile. Empty tiles are
/// absent; a tile column that the sequence length cuts is always partial (its bits past S are zero).
typedef struct ft_mask {
  long entries;                    // 1: shared by all batch entries, else the batch size
  long tile_rows;                  // ceil(S / 64)
  const int* row_begin;            // [entries * tile_rows + 1]: offsets into column and bitmap
  const int* column;               // tile column, ascending within a tile row
  const int* bitmap;               // index into bits, -1: every pair visible
  const unsigned long long* bits;  // [bitmaps][64]: one word per row; bit j: column tile * 64 + j visible
  const unsigned char* key_used;   // [entries][S]: 0 where no query sees the key (its K, V rows are zeroed)
  const long* length;              // [batch] tokens of each entry, or null: no padding
} ft_mask;

/// Tensors, weights and parameters are indexed by the operator tables' order (src/block/operators.h).
typedef struct ft_args {
  long batch;
  void* tensor[18];           // activations, row-major; null where this kernel does not use one
  const void* weight[4];      // packed in the layout the kernel declares
  const float* parameter[8];  // 64-byte aligned, zero-padded to a multiple of 64 floats
  ft_mask mask;
  char* scratch;        // [threads][scratch_stride], 64-byte aligned
  long scratch_stride;  // bytes; at least what the kernel declares
} ft_args;

/// Central sense barrier for the threads of one kernel. Zero-initialise once.
typedef struct ft_barrier {
  int arrived __attribute__((aligned(64)));
  int generation __attribute__((aligned(64)));
} ft_barrier;

static inline void ft_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Waits until all `threads` threads have arrived; everything they wrote before is visible after.
static inline void ft_barrier_wait(ft_barrier* barrier, int threads) {
  if (threads == 1) return;
  const int generation = __atomic_load_n(&barrier->generation, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == threads) {
    __atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier->generation, generation + 1, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(&barrier->generation, __ATOMIC_ACQUIRE) == generation) ft_pause();
}

#endif
