#include "cli/comparable_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace fusetune::cli {
namespace {

using testing::HasSubstr;

store::PlanRecord plan(const std::string& problem, const std::string& settings, double median_us,
                       double reference_us) {
  store::PlanRecord record;
  record.problem = problem;
  record.settings = settings;
  record.measurement.outcome = measure::Outcome::ok;
  record.measurement.time.median_us = median_us;
  record.measurement.reference_us = reference_us;
  return record;
}

std::vector<double> times_of(const std::vector<store::PlanRecord>& records) {
  std::vector<double> times;
  for (const store::PlanRecord& record : comparable_times(records).rows)
    times.push_back(record.measurement.time.median_us);
  return times;
}

TEST(ComparableTimes, OnlyTheSettingsThatMostRowsHave) {
  const auto comparable = comparable_times<store::PlanRecord>({plan("p", "samples=12 reference=a", 10, 50),
                                                               plan("p", "samples=24 reference=a", 1, 5),
                                                               plan("p", "samples=12 reference=a", 11, 50)});
  ASSERT_EQ(comparable.rows.size(), 2u);
  EXPECT_EQ(comparable.rows[0].measurement.time.median_us, 10);
  EXPECT_EQ(comparable.rows[1].measurement.time.median_us, 11);
  EXPECT_EQ(comparable.other_units, 1u);
  EXPECT_EQ(comparable.left_out(),
            "left out 0 without a time, 1 in other units (1 of data generated, samples=24 reference=a, "
            "protocol 1, reference 5.0 us)");
}

TEST(ComparableTimes, EachProblemHasItsOwnReference) {
  EXPECT_THAT(
      times_of({plan("p", "samples=12 reference=a", 10, 50), plan("q", "samples=24 reference=b", 3, 7)}),
      testing::ElementsAre(10, 3));
}

TEST(ComparableTimes, WithAndWithoutAReferenceAreNotMixedAcrossProblemsEither) {
  EXPECT_THAT(
      times_of({plan("p", "s", 10, 0), plan("q", "s reference=b", 3, 7), plan("q", "s reference=b", 4, 7)}),
      testing::ElementsAre(3, 4));
  EXPECT_THAT(times_of({plan("p", "s", 10, 0), plan("p", "s", 11, 0), plan("q", "s reference=b", 3, 7)}),
              testing::ElementsAre(10, 11));
}

TEST(ComparableTimes, OtherDataAndAnotherAgreementOnTheReferenceAreOtherUnits) {
  store::PlanRecord files = plan("p", "s", 2, 0);
  files.data = "files-1";
  EXPECT_THAT(times_of({files, plan("p", "s", 10, 0), plan("p", "s", 11, 0)}), testing::ElementsAre(10, 11));
  // Merged databases: the same settings, but each has timed the reference for itself.
  EXPECT_THAT(times_of({plan("p", "s", 2, 5), plan("p", "s", 10, 50), plan("p", "s", 11, 50)}),
              testing::ElementsAre(10, 11));
}

TEST(ComparableTimes, TheNewestProtocolThatHasATimeHoweverFew) {
  store::PlanRecord newer = plan("p", "s", 10, 0), failed = plan("p", "s", 0, 0);
  newer.protocol = 2;
  failed.protocol = 3;
  failed.measurement.outcome = measure::Outcome::crashed;
  const auto comparable =
      comparable_times<store::PlanRecord>({plan("p", "s", 1, 0), plan("p", "s", 2, 0), newer, failed});
  ASSERT_EQ(comparable.rows.size(), 1u);
  EXPECT_EQ(comparable.rows[0].measurement.time.median_us, 10);
  EXPECT_EQ(comparable.failed, 1u);
  EXPECT_EQ(comparable.other_units, 2u);
}

TEST(ChooseEnvironment, TheOnlyOneOrTheOneThatIsNamed) {
  const std::vector<store::EnvironmentRecord> two = {{"aa11", {{"isa", "avx2"}}}, {"ab22", {}}};
  EXPECT_EQ(choose_environment({two[0]}, "", "f.db", "choose").fingerprint, "aa11");
  EXPECT_EQ(choose_environment(two, "ab", "f.db", "choose").fingerprint, "ab22");
  for (const char* wanted : {"", "a", "c"}) {
    try {
      choose_environment(two, wanted, "f.db", "choose");
      ADD_FAILURE() << wanted;
    } catch (const base::UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("choose:\n  aa11, isa avx2\n  ab22")) << wanted;
    }
  }
}

}  // namespace
}  // namespace fusetune::cli
