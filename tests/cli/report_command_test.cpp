// `fusetune report` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "program.h"
#include "store/tuning_store.h"

namespace fusetune::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kRecorded = FUSETUNE_SOURCE_DIR "/data/recorded/small-1x64.jsonl.gz";

json data_of(const std::string& page) {
  const std::string mark = "id=\"data\">\n";
  const std::size_t begin = page.find(mark) + mark.size();
  return json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

class Report : public testing::Test {
 protected:
  base::TemporaryDirectory directory_;
  Outcome run(const std::vector<std::string>& words) { return fusetune(words, directory_.path()); }
};

TEST_F(Report, HoldsWhatTheDatabaseHas) {
  ASSERT_EQ(run({"db", "import", "--db", "fusetune.db", kRecorded}).exit_code, 0);
  const Outcome written = run({"report"});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr("of fusetune.db: report.html"));
  const json data = data_of(base::read_file(directory_.path() / "report.html"));
  const store::TuningStore store(directory_.path() / "fusetune.db");
  const store::Contents contents = store.contents();
  const store::RunRecord newest = store.runs().front();
  EXPECT_EQ(data["run"], newest.id);
  EXPECT_EQ(data["result"], json::parse(newest.result));
  ASSERT_EQ(data["segments"].size(), contents.segments.size());
  ASSERT_EQ(data["plans"].size(), contents.plans.size());
  for (std::size_t i = 0; i < contents.segments.size(); ++i) {
    EXPECT_EQ(data["segments"][i]["variant"], contents.segments[i].key.variant);
    EXPECT_EQ(data["segments"][i]["median_us"], contents.segments[i].measurement.time.median_us);
    EXPECT_EQ(data["segments"][i]["samples_us"], json(contents.segments[i].measurement.samples_us));
  }
  for (std::size_t i = 0; i < contents.plans.size(); ++i) {
    const store::PlanRecord& plan = contents.plans[i];
    EXPECT_EQ(data["plans"][i]["mask"], plan.mask);
    if (plan.measurement.outcome == measure::Outcome::ok) {
      EXPECT_EQ(data["plans"][i]["median_us"], plan.measurement.time.median_us);
    }
  }
  EXPECT_EQ(data["finalists"].size(), contents.finalists.at(newest.id).size());
}

TEST_F(Report, TakesExportedLinesAndARun) {
  const Outcome page = run({"report", "--db", kRecorded, "--run", "1", "--out", "-"});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.out, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page.out, HasSubstr("AMD EPYC"));
  EXPECT_EQ(data_of(page.out)["run"], 1);
  EXPECT_EQ(page.out, run({"report", "--db", kRecorded, "--run", "1", "--out", "-"}).out);
}

TEST_F(Report, SaysWhatIsMissing) {
  const Outcome absent = run({"report"});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_THAT(absent.err, HasSubstr("no file fusetune.db"));
  EXPECT_THAT(run({"report", "--db", kRecorded, "--run", "99"}).err,
              HasSubstr("no such run; its newest is 2"));
  { const store::TuningStore empty(directory_.path() / "empty.db"); }
  EXPECT_THAT(run({"report", "--db", "empty.db"}).err, HasSubstr("has no search"));
  EXPECT_EQ(run({"report", "--db", kRecorded, "--out", "none/r.html"}).exit_code, 3);
}

}  // namespace
}  // namespace fusetune::cli_test
