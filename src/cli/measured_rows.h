// Which rows of a database measured given kernels, for documents that name their measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/any_kernel.h"
#include "measure/session.h"
#include "plan/fusion_mask.h"

namespace fusetune::cli {

struct MeasuredRows {
  std::optional<std::int64_t> plan;                   // row in plan_measurement; nullopt: not timed whole
  std::optional<double> plan_us;                      // its median
  std::vector<std::optional<std::int64_t>> segments;  // rows in segment_measurement, one a kernel
  bool any() const;
};

/// Rows with a time of exactly these kernels, to the byte, of the session's problem, environment and data and
/// the cache mode of `options`. Of several the newest protocol, of these the settings of `options`, of these
/// the newest row. Throws base::EnvironmentError where the file cannot be read.
MeasuredRows find_measured_rows(const std::string& database, const measure::Session& session,
                                const measure::SessionOptions& options, plan::FusionMask mask,
                                std::span<const codegen::AnyKernel> kernels);

}  // namespace fusetune::cli
