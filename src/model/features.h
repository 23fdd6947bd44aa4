// What the cost model knows of a candidate: one table a schema, every feature defined once.
//
// To add a feature: one row in features.cpp. The schema hash follows, so that models fitted before refuse to
// load.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "block/problem.h"
#include "lower/any_schedule.h"
#include "plan/fusion_plan.h"

namespace fusetune::model {

enum class Schema : std::uint8_t {
  plan_bits,  // a plan of a problem that nobody named: what its mask says
  plan,       // and its problem, its static costs
  segment,    // one segment variant with its schedule
};
std::string_view name(Schema schema);
/// Throws base::UsageError.
Schema parse_schema(std::string_view text);

struct FeatureInfo {
  std::string name;
  std::string definition;  // with its unit
};
/// In the order of a table's columns.
std::span<const FeatureInfo> features(Schema schema);
/// Of the schema's name and its features' names, in order.
std::string schema_hash(Schema schema);

/// FLOPs and bytes to memory as one figure, in FLOPs: what times are near to proportional to.
double work_of(double flops, double bytes);

/// A hand-off's place in the order of what stays on chip, in which a CPU's are 0, 1 and 2: `norm` lies
/// between two of them.
double rank(lower::GpuHandOff hand_off);

/// What features need of a problem, computed once: sizes, mask density, static costs of every variant.
class ProblemFacts {
 public:
  /// Paints the problem's mask: O(S^2/64) for each batch entry. Throws base::UsageError for an illegal one.
  explicit ProblemFacts(const block::Problem& problem);

  struct Costs {
    double flops = 0;
    double bytes_read = 0, bytes_written = 0;
    double barriers = 0;  // inside its kernel, under the default schedule
  };
  const block::Problem& problem() const { return problem_; }
  /// Share of the [S,S] pairs that are visible, over the batch: 0..1.
  double mask_density() const { return mask_density_; }
  const Costs& costs(const plan::SegmentVariant& variant) const;

 private:
  block::Problem problem_;
  double mask_density_ = 1;
  std::array<Costs, plan::kVariantCount> costs_;
};

/// What kernels of the segment table run on, so that rows of several machines can be learned together.
struct Device {
  Device() = default;
  Device(const lower::CpuTarget& cpu) : target(cpu) {}  // NOLINT(google-explicit-constructor)
  Device(lower::Target any, std::int64_t last_level) : target(std::move(any)), last_level_bytes(last_level) {}

  lower::Target target;
  std::int64_t last_level_bytes = 0;  // of its last-level cache; 0: not known
};

/// Candidates of one schema as rows of float32, the form XGBoost takes.
class FeatureTable {
 public:
  explicit FeatureTable(Schema schema);

  /// Schema plan_bits.
  void add(const plan::FusionPlan& plan);
  /// Schema plan.
  void add(const plan::FusionPlan& plan, const ProblemFacts& facts);
  /// Schema segment. Throws base::UsageError for a schedule that the device refuses, base::InternalError for
  /// one of another kind of device.
  void add(const plan::SegmentVariant& variant, const lower::AnySchedule& schedule, const ProblemFacts& facts,
           const Device& device);
  /// Row `row` of a table of the same schema.
  void add_row_of(const FeatureTable& other, std::size_t row);

  Schema schema() const { return schema_; }
  std::size_t rows() const { return work_.size(); }
  std::size_t columns() const { return columns_; }
  /// Row-major, rows() x columns().
  std::span<const float> values() const { return values_; }
  std::span<const float> row(std::size_t row) const;
  /// FLOPs plus 8 x bytes that the row's problem or segment needs at least; 1 where nobody named the problem.
  /// The model learns time / work, so that problems of different sizes have something in common.
  double work(std::size_t row) const { return work_[row]; }

 private:
  void require(Schema schema) const;

  Schema schema_;
  std::size_t columns_;
  std::vector<float> values_;
  std::vector<double> work_;
};

}  // namespace fusetune::model
