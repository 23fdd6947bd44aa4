// The contract between a generated GPU kernel and whoever launches it. Plain data, no headers, the same for
// CUDA, HIP and the emulator.
//
// A kernel takes one Args by value. It is launched with 1-D blocks of the number of threads and the dynamic
// shared memory that it declares, on any number of blocks; where it declares that it is cooperative, all of
// them must be resident at once.
#ifndef FUSETUNE_KERNELS_CUDA_ABI_H
#define FUSETUNE_KERNELS_CUDA_ABI_H

/// Attention mask in two levels: tiles of 64 x 64 in CSR form, a bitmap per partial tile. Empty tiles are
/// absent; a tile column that the sequence length cuts is always partial (its bits past S are zero).
struct ft_gpu_mask {
  const int* row_begin;            // [entries * tile_rows + 1]: offsets into column and bitmap
  const int* column;               // tile column, ascending within a tile row
  const int* bitmap;               // index into bits, -1: every pair visible
  const unsigned long long* bits;  // [bitmaps][64]: one word per row; bit j: column tile * 64 + j visible
  const unsigned char* key_used;   // [entries][S]: 0 where no query sees the key (its K, V rows are zeroed)
  const int* length;               // [batch] tokens of each entry, or null: no padding
  int entries;                     // 1: shared by all batch entries, else the batch size
};

/// Tensors, weights and parameters are indexed by the operator tables' order (src/block/operators.h), and
/// have as many elements as these say: nothing past them is read. Every pointer is 256-byte aligned; a
/// kernel's unused ones may be null.
struct ft_gpu_args {
  void* tensor[18];           // activations, row-major
  const void* weight[4];      // row-major [in, out]
  const float* parameter[8];  // float32
  ft_gpu_mask mask;
  float* scratch;      // [blocks][the bytes per block that the kernel declares]
  unsigned int* sync;  // the words that the kernel declares, zero before the first launch and after an abort
  int batch;
};

#endif
