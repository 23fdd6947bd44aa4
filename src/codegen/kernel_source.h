// KernelSource: one generated kernel as text, and what its runner must provide.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lower/schedule.h"

namespace fusetune::codegen {

/// Layout of a packed weight [K,N]: columns in groups of `group` (each padded to a multiple of `panel`), a
/// panel is [K][panel] contiguous, panels in column order. group = 0: one group of all N columns.
struct PanelLayout {
  int panel = 0;
  int group = 0;
  auto operator<=>(const PanelLayout&) const = default;
  std::string to_string() const;  // "panel16g64"
  /// Floats of the packed weight.
  std::int64_t elements(std::int64_t k, std::int64_t n) const;
};

/// Packs a row-major [k,n] matrix; padding columns are zero. `packed` has layout.elements(k, n) floats.
void pack_weight(const float* weight, std::int64_t k, std::int64_t n, const PanelLayout& layout,
                 float* packed);

struct KernelSource {
  plan::SegmentVariant variant;
  lower::Schedule schedule;
  std::string symbol;                 // unique: "ft_segment_7_14_<hash>"
  std::vector<std::string> includes;  // building blocks under kernels/, e.g. "cpu/gemm.h", in order
  std::string body;                   // the generated function with its header comment and constants
  int lanes = 0;                      // float lanes of a vector: kernels of one unit agree
  std::string hash;                   // of everything that could change the machine code but flags
  std::array<std::optional<PanelLayout>, block::kWeightCount> layouts;  // weights it reads
  std::vector<block::Tensor> reads;                                     // live-in tensors
  std::vector<block::Tensor> writes;                                    // live-out tensors
  std::vector<block::Tensor> workspace;  // tensors it spills: neither, but must point to memory of their size
  std::int64_t scratch_bytes = 0;        // per thread
};

/// Generates one kernel. Pure and deterministic. Throws base::UsageError for a schedule that
/// lower::refuse() refuses, naming its reason.
KernelSource generate_cpu(const plan::SegmentVariant& variant, const lower::Schedule& schedule,
                          const block::Problem& problem, const lower::CpuTarget& target);

/// One self-contained translation unit with several kernels: each building block's text once, then the
/// bodies. Compiles alone with no include path.
std::string translation_unit(std::span<const KernelSource> kernels);
/// The same for people: the generated part only, with `#include "cpu/gemm.h"` lines.
std::string readable_source(const KernelSource& kernel);

/// Text of an embedded file under kernels/ or templates/, e.g. "cpu/gemm.h"; from `kernel_dir` when set by
/// set_kernel_directory(). Throws base::InternalError when there is none.
std::string_view building_block(std::string_view path);
/// --kernel-dir: read kernels/ from here instead of the embedded copy. Throws base::EnvironmentError.
void set_kernel_directory(const std::string& directory);

}  // namespace fusetune::codegen
