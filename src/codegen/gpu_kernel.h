// GpuKernel: one generated GPU kernel as text, and what its launcher must provide.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lower/gpu_schedule.h"

namespace fusetune::codegen {

/// Who compiles the text: it is the same for all, but for the platform's header.
enum class GpuDialect : std::uint8_t {
  cuda,  // NVRTC and nvcc
  hip,   // hipcc, float32 only
  simt,  // the host's C++ compiler, for the emulator
};

/// Rows of a counter where tasks wait for rows: kernels/cuda/sync.h.
inline constexpr std::int64_t kGpuRowGroup = 64;
/// Kernels count rows, of tokens and of scores, in 32 bits with a sign, and step past the last row by as much
/// as the grid takes at once: half of that range is safe.
inline constexpr std::int64_t kMostGpuRows = std::int64_t{1} << 30;

/// How a kernel is launched for one batch size.
struct GpuLaunch {
  std::int64_t blocks = 0;         // at most: one for each task of the stage with most; fewer do as well
  int threads = 0;                 // of a block
  std::int64_t shared_bytes = 0;   // dynamic
  std::int64_t scratch_bytes = 0;  // for that many blocks
  std::int64_t sync_words = 0;     // of 4 bytes, zero before the first launch
  bool cooperative = false;        // all blocks must be resident
};

struct GpuKernel {
  plan::SegmentVariant variant;
  lower::GpuSchedule schedule;
  block::Dtype dtype = block::Dtype::f32;
  std::string symbol;                    // unique: "ft_segment_7_14_f16_<hash>"
  std::vector<std::string> includes;     // building blocks under kernels/ but the platform, in order
  std::string body;                      // the generated function with its header comment and constants
  std::string hash;                      // of body and building blocks, 16 hexadecimal digits
  std::vector<block::Tensor> reads;      // live-in tensors
  std::vector<block::Tensor> writes;     // live-out tensors
  std::vector<block::Tensor> workspace;  // tensors it spills: neither, but must point to memory of their size
  std::vector<block::Weight> weights;    // row-major, as the block holds them

  /// `resident`: how many blocks the device holds at once; 0: as many as there are tasks. Throws
  /// base::UsageError for a batch whose rows a kernel cannot count.
  GpuLaunch launch(std::int64_t batch, std::int64_t resident = 0) const;

  /// Tasks of a loop: one for every `rows` rows of all tokens (or of each entry) and each of `times` parts.
  struct Tasks {
    std::int64_t rows, times;
    bool by_entry;
  };
  std::int64_t seq = 0, heads = 0;
  int stages = 0;                         // that wait for one another
  std::vector<Tasks> tasks;               // of all loops over tasks
  std::int64_t shared_bytes = 0;          // dynamic shared memory of a block
  std::int64_t block_scratch_floats = 0;  // workspace of each block
  std::vector<std::int64_t> split_tiles;  // of each stage with split k: tiles across the columns
};

/// Generates one kernel. Pure and deterministic; the batch is an argument of the kernel. Throws
/// base::UsageError for a schedule that lower::refuse() refuses, naming its reason.
GpuKernel generate_gpu(const plan::SegmentVariant& variant, const lower::GpuSchedule& schedule,
                       const block::Problem& problem, const lower::GpuTarget& target);

/// One self-contained translation unit: each building block's text once, with #line directives that name the
/// files under kernels/ and the kernels' symbols, then the bodies. For cuda and hip one kernel a unit.
std::string translation_unit(std::span<const GpuKernel> kernels, GpuDialect dialect);
/// The same for people: the generated part only, with `#include "cuda/gemm.h"` lines.
std::string readable_source(const GpuKernel& kernel, GpuDialect dialect);

}  // namespace fusetune::codegen
