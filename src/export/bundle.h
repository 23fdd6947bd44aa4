// Bundles: one plan as a library, with its sources, that runs on machines without fusetune.
//
// Reading guide: what goes in (this file, cuda_bundle for GPUs), the texts made from it (config_text,
// cuda_config_text, mask_text, manifest, and the templates in templates/cpu_bundle and cuda_bundle), the
// compiled library (library_builder), the directory and its archive (bundle_writer).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "block/problem.h"
#include "codegen/kernel_source.h"
#include "plan/fusion_plan.h"

namespace fusetune::exporting {

/// Raised whenever the form of the directory or of manifest.json changes.
inline constexpr int kBundleFormat = 1;

/// The compiler of the kernels, as they were checked.
struct Toolchain {
  std::string path;                       // to call it
  std::string name;                       // "gcc 12.2.0"
  std::vector<std::string> kernel_flags;  // instruction set included
};

/// What a database knows of the plan's times. Not there: not known; only a search that chose the plan has
/// timed it in pairs.
struct MeasuredPlan {
  std::optional<std::int64_t> run;        // of the search that chose it: row id in the database
  std::optional<double> time_us;          // median, whole plan
  std::optional<double> low_us, high_us;  // 95 % interval
  std::optional<int> pairs;  // alternating pairs with the search's baseline; 0: it is the baseline
  std::string cache_mode;
  // Row ids too: of the plan, and of each kernel timed alone, in order; nullopt: not there.
  std::optional<std::int64_t> plan_row;
  std::vector<std::optional<std::int64_t>> segment_rows;
};

/// What bundles for every target say of themselves.
struct BundleOrigin {
  std::string name;  // prefix of every symbol; see check_name()
  std::string fusetune_version;
  block::Problem problem;
  plan::FusionMask mask;  // as typed, or the search's
  std::vector<std::string>
      schedule_origins;  // of each kernel: "default", "recorded", "file", "given", "search"
  std::map<std::string, std::string> environment;
  std::string fingerprint;
  std::optional<MeasuredPlan> measured;
  double norm_error = 0, worst_error = 0;  // of the check that let the plan pass
};

/// A bundle for the CPU.
struct BundleInput : BundleOrigin {
  std::vector<codegen::KernelSource> kernels;  // in order, one per segment
  lower::Isa isa = lower::Isa::generic;
  int threads = 1;  // what was checked and measured
  Toolchain toolchain;
};

/// "encoder_causal_b2_s33_h3x40": the problem as a C identifier.
std::string default_name(const block::Problem& problem);
/// Throws base::UsageError for what is no C identifier, or would clash with words of C, CMake or the system.
void check_name(const std::string& name);

/// Names of the CPU features that code for `isa` needs, as the compiler spells them.
std::vector<std::string> required_features(lower::Isa isa);

/// The compiler's word for the oldest CPU of this architecture, for everything but the kernels.
std::string_view baseline_flag();

/// Content by path within the bundle.
using Files = std::map<std::string, std::string>;

/// Everything but what the compiler makes, and the manifest. Pure but for the float64 reference that it
/// computes, which takes a while for large problems.
Files bundle_sources(const BundleInput& input);

/// "src/segment_1_6_hand_written.cpp", in order.
std::vector<std::string> kernel_files(const BundleInput& input);

}  // namespace fusetune::exporting
