#include "cli/row_diff.h"

#include <gtest/gtest.h>

namespace fusetune::cli {
namespace {

store::Contents with_segment(const std::string& environment, double median_us, double reference_us) {
  store::TuningRecord segment;
  segment.key.problem = "p";
  segment.key.environment = environment;
  segment.key.source_hash = "same kernel";
  segment.key.cache_mode = "model";
  segment.measurement.outcome = measure::Outcome::ok;
  segment.measurement.time = {median_us, 0.01 * median_us, 0.9 * median_us, 12};
  segment.measurement.reference_us = reference_us;
  store::Contents contents;
  contents.segments = {segment};
  return contents;
}

double ratio_of(const store::Contents& a, const store::Contents& b) {
  const std::vector<DiffRow> rows = diff_segments(a, b);
  return rows.size() == 1 && rows[0].timed() ? rows[0].ratio() : 0;
}

TEST(RowDiff, UnitsOfTheSameReferenceCancel) {
  // The second file agreed on a unit while the machine was slow.
  EXPECT_DOUBLE_EQ(ratio_of(with_segment("env", 100, 3400), with_segment("env", 150, 5100)), 1);
  EXPECT_DOUBLE_EQ(ratio_of(with_segment("env", 100, 3400), with_segment("env", 100, 5100)), 3400.0 / 5100);
}

TEST(RowDiff, OtherMachinesAndTimesWithoutAReferenceAreWhatTheyAre) {
  EXPECT_DOUBLE_EQ(ratio_of(with_segment("one", 100, 3400), with_segment("two", 150, 5100)), 1.5);
  EXPECT_DOUBLE_EQ(ratio_of(with_segment("env", 100, 0), with_segment("env", 150, 0)), 1.5);
}

}  // namespace
}  // namespace fusetune::cli
