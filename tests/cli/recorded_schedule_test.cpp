// Which recorded schedule a command takes for a segment.
#include <gtest/gtest.h>

#include "cli/schedule_option.h"
#include "codegen/any_kernel.h"
#include "store/store_fixture.h"

namespace fusetune::cli {
namespace {

constexpr int kOutProjection = 7;  // [7], which a library computes too

block::Problem small_problem() {
  block::Problem problem;
  problem.batch = 1;
  problem.seq = 33;
  problem.heads = 2;
  problem.head_size = 16;
  problem.ffn = 64;
  problem.dtype = block::Dtype::f16;
  return problem;
}

lower::GpuTarget target_with(const std::string& library_version) {
  lower::GpuTarget target{.shared_bytes = 227 << 10, .multiprocessors = 4};
  target.library = lower::GpuLibrary{.version = library_version, .missing = "none is here"};
  return target;
}

class RecordedSchedule : public testing::Test {
 protected:
  /// As a search on `target` would.
  void record(const lower::AnySchedule& schedule, const lower::GpuTarget& target, double us) {
    const plan::SegmentVariant& variant = plan::all_variants()[variant_];
    const std::string hash = codegen::generate(variant, schedule, problem_, target).hash();
    store::TuningRecord record = store::record_of(variant_, hash, us);
    record.key.problem = problem_.key();
    record.schedule = schedule.to_string();
    store_.record(record);
  }
  std::string found(const lower::GpuTarget& target) const {
    const auto schedule = recorded_schedule(store_, problem_, "env-a", {"model"}, variant_, target);
    return schedule ? schedule->to_string() : "none";
  }

  const block::Problem problem_ = small_problem();
  const int variant_ = plan::variant_index({{kOutProjection, kOutProjection}, false});
  const lower::AnySchedule kernel_ = lower::default_schedule(
      plan::all_variants()[static_cast<std::size_t>(variant_)], problem_, target_with("any"));
  const lower::AnySchedule product_ = lower::GpuSchedule::parse("product=library");
  base::TemporaryDirectory directory_;
  store::TuningStore store_{directory_.path() / "tuning.db"};

  void SetUp() override { store_.begin_run(problem_.key(), store::environment(), "{}"); }
};

TEST_F(RecordedSchedule, ALibrarysTimeIsOfItsVersionAndAKernelsOfNone) {
  record(product_, target_with("cuBLASLt 13.0.2"), 10);
  EXPECT_EQ(found(target_with("cuBLASLt 13.0.2")), "product=library");
  EXPECT_EQ(found(target_with("cuBLASLt 13.1.0")), "none") << "what 13.0.2 took says nothing of 13.1.0";

  record(kernel_, target_with("cuBLASLt 13.0.2"), 20);
  EXPECT_EQ(found(target_with("cuBLASLt 13.0.2")), "product=library");
  for (const char* other : {"cuBLASLt 13.1.0", ""})
    EXPECT_EQ(found(target_with(other)), kernel_.to_string()) << other;

  record(product_, target_with("cuBLASLt 13.1.0"), 15);
  EXPECT_EQ(found(target_with("cuBLASLt 13.1.0")), "product=library");
}

// Its schedule is as good as before, or nearly so, where its source was edited since.
TEST_F(RecordedSchedule, AKernelsScheduleOutlivesItsSource) {
  store::TuningRecord record = store::record_of(variant_, "of an earlier source", 20);
  record.key.problem = problem_.key();
  record.schedule = kernel_.to_string();
  store_.record(record);
  EXPECT_EQ(found(target_with("cuBLASLt 13.0.2")), kernel_.to_string());
}

}  // namespace
}  // namespace fusetune::cli
