// The program on a GPU that is not there: NVRTC is the real one, the driver a stand-in that runs the
// emulator's build of each kernel (tests/backend/cuda/fake_driver.cpp).
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/cuda/installed_nvrtc.h"
#include "base/subprocess.h"
#include "block/operators.h"
#include "block/problem.h"
#include "cli/program.h"
#include "lower/gpu_schedule.h"
#include "plan/fusion_plan.h"

namespace fusetune::cli_test {
namespace {

using backend::cuda::ScopedVariable;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

block::Problem small_problem() {
  block::Problem problem;
  problem.batch = 1;
  problem.seq = 17;
  problem.heads = 2;
  problem.head_size = 16;
  problem.ffn = 40;
  problem.dtype = block::Dtype::f16;
  problem.eps = block::find_preset("bert-base").eps;  // the program's default
  return problem;
}

std::vector<std::string> schedules_of(const Json& manifest) {
  std::vector<std::string> schedules;
  for (const Json& kernel : manifest.at("kernels")) {
    EXPECT_EQ(kernel.at("schedule_from"), "search");
    schedules.push_back(kernel.at("schedule"));
  }
  return schedules;
}

class CudaCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (!backend::cuda::installed_nvrtc(reason)) GTEST_SKIP() << reason;
    base::write_file_atomic(folder_.path() / "problem", problem_.key());
    const auto made = base::run_process({FAKE_KERNELS, folder_.path().string()});
    ASSERT_EQ(made.exit_code, 0) << made.output;
  }

  /// `words` with the backend and the problem behind them, in a directory that the test's runs share.
  Outcome run(std::vector<std::string> words) const {
    for (const char* word : {"--backend", "cuda", "--batch", "1", "--seq", "17", "--heads", "2",
                             "--head-size", "16", "--ffn", "40"})
      words.emplace_back(word);
    for (const auto& [option, word] : {std::pair("--dtype", block::name(problem_.dtype)),
                                       std::pair("--gelu", block::name(problem_.gelu))}) {
      words.emplace_back(option);
      words.emplace_back(word);
    }
    return fusetune(words, directory_.path());
  }
  /// A short search of whole plans, with its result as JSON.
  Outcome search(const std::vector<std::string>& more = {}, const char* trials = "5") const {
    std::vector<std::string> words = {"search", "--strategy", "mask", "--trials", trials, "--samples",
                                      "2",      "--min-time", "0.01", "--pairs",  "20",   "--finalists",
                                      "2",      "--json",     "-",    "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  /// The manifest of the bundle that `export best` makes with a database.
  Json exported_best(const std::string& database, const std::string& out) const {
    const Outcome made =
        run({"export", "best", "--db", database, "--no-emulation", "--no-archive", "--out", out});
    EXPECT_EQ(made.exit_code, 0) << made.out << made.err;
    return Json::parse(base::read_file(directory_.path() / out / "manifest.json"));
  }
  /// Another schedule of the first kernel of a search's best plan.
  std::string other_schedule(const Json& best) const {
    const auto plan = plan::FusionPlan::from_mask({best.at("mask").get<std::uint16_t>()});
    const int first = plan::variant_index(plan.variants().front());
    std::istringstream index(base::read_file(folder_.path() / "index"));
    std::string id, schedule;
    for (int variant = 0; index >> id >> variant && std::getline(index >> std::ws, schedule);)
      if (variant == first && schedule != best.at("schedules").front().get<std::string>()) return schedule;
    ADD_FAILURE() << "one schedule only of " << best.at("plan");
    return {};
  }
  /// Makes a database: that of the searches with another schedule for the first kernel of their best plan.
  void rewrite(const std::string& from, const std::string& to, const std::string& made) const {
    std::istringstream rows(fusetune({"db", "export", "--db", "fusetune.db"}, directory_.path()).out);
    std::string text;
    for (std::string row; std::getline(rows, row); text += row + "\n") {
      const std::size_t best = row.find(R"(\"best\")"), at = row.find(from, best);
      if (best != std::string::npos && at != std::string::npos) row.replace(at, from.size(), to);
    }
    base::write_file_atomic(directory_.path() / "rows.jsonl", text);
    const Outcome imported = fusetune({"db", "import", "rows.jsonl", "--db", made}, directory_.path());
    EXPECT_EQ(imported.exit_code, 0) << imported.err;
  }

  /// A search's plan with its schedules and time. It is the database that is asked for them: told of another
  /// schedule, that one is exported, and then without a time.
  void expect_best_is_exported(const Json& found) const {
    const Json manifest = exported_best("fusetune.db", "found");
    std::vector<std::string> schedules = found.at("schedules");
    EXPECT_EQ(schedules_of(manifest), schedules);
    EXPECT_EQ(manifest.at("plan").at("mask"), found.at("mask"));
    EXPECT_EQ(manifest.at("measured").at("time_us").at("median"), found.at("time_us").at("value"));
    EXPECT_EQ(manifest.at("measured").at("search_run"), 2);
    EXPECT_EQ(manifest.at("architecture"), "sm_90a");

    const std::string other = other_schedule(found);
    rewrite(schedules.front(), other, "other.db");
    schedules.front() = other;
    const Json told = exported_best("other.db", "other");
    EXPECT_EQ(schedules_of(told), schedules);
    EXPECT_TRUE(told.at("measured").is_null());
  }

  block::Problem problem_ = small_problem();
  base::TemporaryDirectory folder_, directory_;
  ScopedVariable driver_{"FUSETUNE_DRIVER", FAKE_DRIVER};
  ScopedVariable device_{"FUSETUNE_FAKE_DRIVER", "small"};
  ScopedVariable kernels_{"FUSETUNE_FAKE_KERNELS", folder_.path().string()};
  ScopedVariable compiler_{"FUSETUNE_FAKE_COMPILER", FAKE_KERNELS};
  ScopedVariable library_{"FUSETUNE_CUBLASLT", FAKE_CUBLASLT};
};

TEST_F(CudaCommands, APlanIsVerifiedRunComparedAndProfiled) {
  const Outcome verified = run({"verify", "48996"});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.err,
              AllOf(HasSubstr("8 checked, 0 failed"), HasSubstr("cuda Fake H100, driver 13.2, nvrtc")));

  const Outcome ran = run({"run", "48996"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("1 x 17 x 32"));

  const Outcome compared = run({"bench", "48996", "0", "--pairs", "20", "--min-time", "0.01", "--csv", "-"});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_THAT(compared.out, AllOf(HasSubstr("48996,"), HasSubstr(",ok,")));

  const Outcome profiled = run(
      {"profile", "48996", "--passes", "3", "--csv", "-", "--trace", "trace.json", "--sqlite", "profile.db"});
  EXPECT_EQ(profiled.exit_code, 0) << profiled.err;
  EXPECT_EQ(std::count(profiled.out.begin(), profiled.out.end(), '\n'), 1 + 7) << profiled.out;
  const Json trace = Json::parse(base::read_file(directory_.path() / "trace.json"));
  std::map<int, int> events;  // by track: passes, kernels, host calls
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") ++events[event.at("tid").get<int>()];
  EXPECT_EQ(events, (std::map<int, int>{{1, 3}, {2, 3 * 7}, {3, 3 * (7 + 1)}}));

  SQLite::Database file((directory_.path() / "profile.db").string());
  EXPECT_EQ(file.execAndGet("SELECT count(*) FROM launch").getInt(), 3 * 7);
  EXPECT_EQ(file.execAndGet("SELECT count(*) FROM host_call WHERE end_ns >= start_ns").getInt(), 3 * (7 + 1));
  // Each kernel has its launch, once a pass.
  EXPECT_EQ(file.execAndGet("SELECT count(*) FROM kernel JOIN host_call_summary AS host "
                            "ON host.name = 'launch ' || kernel.name WHERE host.calls = 3")
                .getInt(),
            7);
}

TEST_F(CudaCommands, FaultsCostTheirCandidatesOnlyNothingIsMeasuredTwiceAndTheBestIsExported) {
  // Its products would not be exported: a bundle has generated kernels in their place.
  const ScopedVariable no_library("FUSETUNE_CUBLASLT", "/no/such/libcublasLt.so");
  // Every plan has one of [3-4], [3] and [2-3..6] and so on: some meet a fault, some do not.
  const ScopedVariable faults("FUSETUNE_FAKE_FAULTS",
                              "illegal:segment_3_4_ launch:segment_5_5_ resources:segment_6_6_ "
                              "memory:segment_8_8_ hang:segment_13_13_");
  const Outcome first = search({"--run-timeout", "4"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const Json result = Json::parse(first.out);
  std::map<std::string, int> outcomes = result.at("search").at("outcomes");
  EXPECT_GT(outcomes["ok"], 0) << first.out;
  EXPECT_GT(outcomes["crashed"] + outcomes["resource_limit"] + outcomes["timeout"], 0) << first.out;
  EXPECT_EQ(outcomes["wrong_result"] + outcomes["launch_failed"], 0) << first.out;
  const std::string best = result.at("best").at("plan");
  for (const char* faulty : {"[3-4]", "[5]", "[6]", "[8]", "[13]"}) EXPECT_THAT(best, Not(HasSubstr(faulty)));

  const Outcome again = search({"--run-timeout", "4"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const Json repeated = Json::parse(again.out);
  EXPECT_EQ(repeated.at("search").at("reused"), 5) << again.out;  // and as many again

  const Outcome environments = fusetune({"db", "export", "--db", "fusetune.db"}, directory_.path());
  EXPECT_THAT(environments.out, AllOf(HasSubstr("Fake H100"), HasSubstr("GPU-00010203-0405-0607-0809-"),
                                      HasSubstr("--gpu-architecture=sm_90a")));

  expect_best_is_exported(repeated.at("best"));
}

TEST_F(CudaCommands, ALostDeviceEndsTheSearchWithWhatWasMeasured) {
  {
    const ScopedVariable faults("FUSETUNE_FAKE_FAULTS", "lost:segment_2_");
    const Outcome lost = search();
    EXPECT_EQ(lost.exit_code, 3) << lost.out << lost.err;
    EXPECT_THAT(lost.err, AllOf(HasSubstr("NVIDIA's driver"), HasSubstr("46")));
  }
  const Outcome rows = fusetune({"db", "export", "--db", "fusetune.db"}, directory_.path());
  EXPECT_THAT(rows.out, HasSubstr("\"outcome\":\"ok\"")) << rows.err;
  std::filesystem::remove(folder_.path() / "lost");
  const Outcome continued = search();
  ASSERT_EQ(continued.exit_code, 0) << continued.err;
  EXPECT_THAT(continued.err, Not(HasSubstr("NVIDIA's driver"))) << continued.err;
}

TEST_F(CudaCommands, ALibrarysProductIsVerifiedLikeAnyKernel) {
  const auto verify = [this] {
    return run({"verify", "--variant", "[7]", "[12]", "--schedule-text", "product=library"});
  };
  const Outcome right = verify();
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_THAT(right.err, HasSubstr("2 checked, 0 failed"));
  {
    const ScopedVariable wrong("FUSETUNE_FAKE_CUBLASLT", "wrong");
    const Outcome found = verify();
    EXPECT_EQ(found.exit_code, 1) << found.out << found.err;
    EXPECT_THAT(found.err, HasSubstr("2 checked, 2 failed"));
  }
  {
    const ScopedVariable missing("FUSETUNE_CUBLASLT", "/no/such/libcublasLt.so");
    const Outcome refused = verify();
    EXPECT_THAT(refused.out + refused.err,
                AllOf(HasSubstr("product=library"), HasSubstr("/no/such/libcublasLt.so")));
  }
}

/// A problem whose [10-11] is what the library does with its epilogue.
class CudaCommandsInFloat32 : public CudaCommands {
 protected:
  CudaCommandsInFloat32() {
    problem_.dtype = block::Dtype::f32;
    problem_.gelu = block::Gelu::tanh;
  }
};

TEST_F(CudaCommandsInFloat32, ALibrarysBiasAndGeluAreVerifiedAndNotExported) {
  const auto verify = [this](const char* behaviour) {
    const ScopedVariable fake("FUSETUNE_FAKE_CUBLASLT", behaviour);
    return run({"verify", "--variant", "[10-11]", "--schedule-text", "product=library"});
  };
  const Outcome right = verify("");
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_THAT(right.err, HasSubstr("1 checked, 0 failed"));
  // The two forms of GELU are too far apart to be taken for one another.
  for (const char* other : {"erf", "wrong"}) {
    const Outcome found = verify(other);
    EXPECT_EQ(found.exit_code, 1) << other << found.out << found.err;
    EXPECT_THAT(found.err, HasSubstr("1 checked, 1 failed")) << other;
  }
  const std::string mask = std::to_string(plan::FusionPlan(1U << 9 | 1U << 11, false).canonical_mask().value);
  const Outcome given = run({"export", mask, "--no-emulation", "--no-archive", "--out", "bundle",
                             "--schedule-text", "[10-11]: product=library"});
  EXPECT_EQ(given.exit_code, 2) << given.err;
  EXPECT_THAT(given.err, HasSubstr("generated kernels only"));

  problem_.gelu = block::Gelu::erf;
  EXPECT_THAT(verify("").err, HasSubstr("its GELU is the tanh form"));
}

/// Outcomes of product=library by segment, in fusetune.db of `directory`.
std::map<std::string, std::string> recorded_products(const std::filesystem::path& directory) {
  std::map<std::string, std::string> outcomes;
  const Outcome rows = fusetune({"db", "export", "--db", "fusetune.db"}, directory);
  std::istringstream lines(rows.out);
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    if (row.value("schedule", "") == "product=library")
      outcomes[plan::all_variants()[row.at("variant").get<std::size_t>()].to_string()] = row.at("outcome");
  }
  return outcomes;
}

/// What a search begins with on the fake driver's small device: each operator alone, and every candidate of
/// the four products.
std::size_t first_trials() {
  lower::GpuTarget target{.shared_bytes = 227 << 10, .multiprocessors = 4};
  target.library = lower::GpuLibrary{.version = "any", .missing = {}};
  std::size_t count = block::kOperatorCount - 4;
  for (const int op : {0, 7, 10, 12})
    count += lower::schedule_space({{op, op}, false}, small_problem(), target).size();
  return count;
}

// The library takes its time for [0], kernels for the other three.
TEST_F(CudaCommands, ALibrarysProductIsChosenWhereItIsFasterAndABundleHasAKernelInstead) {
  {
    const ScopedVariable slow("FUSETUNE_FAKE_CUBLASLT", "slow:96");
    const ScopedVariable faults("FUSETUNE_FAKE_FAULTS",
                                "slow:segment_7_7_ slow:segment_10_10_ slow:segment_12_12_");
    const Outcome searched =
        run({"search", "--strategy", "exhaustive", "--trials", std::to_string(first_trials()), "--samples",
             "2", "--min-time", "0.01", "--pairs", "20", "--json", "-", "--quiet"});
    ASSERT_EQ(searched.exit_code, 0) << searched.err;
    const Json result = Json::parse(searched.out);
    EXPECT_EQ(result.at("library").at("version"), "cuBLASLt 13.0.2");
    ASSERT_EQ(result.at("best").at("mask"), result.at("references").at("unfused"));
    const Json& schedules = result.at("best").at("schedules");
    EXPECT_THAT(std::string(schedules.at(0)), HasSubstr("tile="));
    for (const int op : {7, 10, 12}) EXPECT_EQ(schedules.at(op), "product=library") << op;
  }
  EXPECT_EQ(
      recorded_products(directory_.path()),
      (std::map<std::string, std::string>{{"[0]", "ok"}, {"[7]", "ok"}, {"[10]", "ok"}, {"[12]", "ok"}}))
      << "all were candidates";
  const Outcome whole = run({"verify", "21845"});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_THAT(whole.err, HasSubstr("16 checked, 0 failed"));

  const Outcome exported = run({"export", "21845", "--no-emulation", "--no-archive", "--out", "bundle"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.err, AllOf(HasSubstr("[7] was timed fastest as a matrix product of the vendor's"),
                                  HasSubstr("(recorded) instead")));
  const Json manifest = Json::parse(base::read_file(directory_.path() / "bundle/manifest.json"));
  EXPECT_EQ(manifest.at("library").at("faster_when_timed"), (Json{"[7]", "[10]", "[12]"}));
  for (const Json& kernel : manifest.at("kernels")) EXPECT_THAT(kernel.at("schedule"), HasSubstr("tile="));
  const Outcome given = run({"export", "21845", "--no-emulation", "--no-archive", "--out", "other",
                             "--schedule-text", "[7]: product=library"});
  EXPECT_EQ(given.exit_code, 2) << given.err;
  EXPECT_THAT(given.err, HasSubstr("generated kernels only"));

  // Where it is of another version or gone, what it was fastest at falls to the fastest kernel, whose time
  // stays.
  {
    const ScopedVariable other("FUSETUNE_FAKE_CUBLASLT", "version:130102");
    const Outcome newer = run({"run", "21845"});
    EXPECT_EQ(newer.exit_code, 0) << newer.err;
    EXPECT_THAT(newer.err, HasSubstr("schedules: 15 recorded"));
    EXPECT_THAT(run({"verify", "21845"}).out, AllOf(HasSubstr("[7]"), Not(HasSubstr("product=library"))));
  }
  const ScopedVariable missing("FUSETUNE_CUBLASLT", "/no/such/libcublasLt.so");
  const Outcome gone = run({"run", "21845"});
  EXPECT_EQ(gone.exit_code, 0) << gone.err;
  EXPECT_THAT(gone.err, HasSubstr("schedules: 15 recorded"));
}

constexpr const char* kFirstUuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";

/// How many candidates each device of a search's JSON measured, by name.
std::map<std::string, int> measured_by_device(const Json& result) {
  std::map<std::string, int> measured;
  for (const Json& device : result.at("devices"))
    measured[device.at("name").get<std::string>()] = device.at("measured").get<int>();
  return measured;
}

/// Faults that make every plan slow but the one kernel that runs the whole block.
std::string all_slow_but_all_fused() {
  std::string faults;
  for (int last = 0; last < block::kOperatorCount - 1; ++last)
    faults += "slow:segment_0_" + std::to_string(last) + "_ ";
  return faults;
}

/// All that was timed has the GPU that timed it, each of the search's GPUs some, the comparison the first.
void expect_rows_say_where(const std::filesystem::path& database, const Json& devices) {
  const SQLite::Database rows(database.string());
  const auto count = [&](const std::string& table, const std::string& where) {
    SQLite::Statement statement(rows, "SELECT count(*) FROM " + table + " WHERE " + where);
    return statement.executeStep() ? statement.getColumn(0).getInt() : -1;
  };
  for (const Json& device : devices) {
    const std::string is_device = "device_uuid = '" + device.at("uuid").get<std::string>() + "'";
    EXPECT_GT(count("segment_measurement", is_device) + count("plan_measurement", is_device), 0) << device;
  }
  EXPECT_EQ(count("segment_measurement", "outcome = 'ok' AND device_uuid IS NULL"), 0);
  EXPECT_EQ(count("plan_measurement", "outcome = 'ok' AND device_uuid IS NULL"), 0);
  EXPECT_EQ(count("comparison", "outcome = 'ok' AND device_uuid IS NOT '" + std::string(kFirstUuid) + "'"),
            0);
}

/// Both found the same in as many measurements.
void expect_alike(const Json& one, const Json& other) {
  EXPECT_EQ(one.at("best").at("mask"), other.at("best").at("mask"));
  EXPECT_EQ(one.at("environment"), other.at("environment"));
  EXPECT_EQ(one.at("search").at("outcomes"), other.at("search").at("outcomes"));
}

// One test, as most of its time goes into the kernels that all its searches share.
TEST_F(CudaCommands, TwoGpusFindWhatOneFindsAndWhereOneIsLostTheOtherDoes) {
  const ScopedVariable pair("FUSETUNE_FAKE_DRIVER", "pair");
  const ScopedVariable no_library("FUSETUNE_CUBLASLT", "/no/such/libcublasLt.so");  // it is never slow
  const auto found = [this](const char* devices, const std::string& faults) {
    for (const char* marker : {"lost-40", "lost-41"}) std::filesystem::remove(folder_.path() / marker);
    const ScopedVariable planted("FUSETUNE_FAKE_FAULTS", all_slow_but_all_fused() + faults);
    const std::string name = devices + ("-" + faults.substr(0, 5)) + ".db";
    const Outcome done = search({"--device", devices, "--db", name}, "2");
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.exit_code == 0 ? Json::parse(done.out) : Json();
  };
  const Json both = found("0,1", "");
  ASSERT_TRUE(both.is_object());
  for (const auto& [name, measured] : measured_by_device(both)) EXPECT_GT(measured, 0) << name;
  EXPECT_EQ(both.at("best").at("mask"), both.at("references").at("all-fused")) << both.at("finalists");
  EXPECT_EQ(both.at("compared_on"), kFirstUuid);
  expect_rows_say_where(directory_.path() / "0,1-.db", both.at("devices"));

  const Json alone = found("1", "");
  ASSERT_TRUE(alone.is_object());
  expect_alike(both, alone);
  EXPECT_EQ(both.at("search").at("measured"), alone.at("search").at("measured"));

  // The second is lost with its first candidate, which is measured on the first.
  const Json on_first = found("0,1", "lost1:segment_");
  ASSERT_TRUE(on_first.is_object());
  EXPECT_EQ(on_first.at("devices").at(0).at("lost"), false);
  EXPECT_EQ(on_first.at("devices").at(1).at("lost"), true);
  EXPECT_EQ(measured_by_device(on_first)["GPU 1"], 0);
  expect_alike(on_first, alone);  // nothing of it crashed

  // The first is lost while the plan that others are timed beside is checked on it.
  const Json on_second = found("0,1", "lost0:segment_");
  ASSERT_TRUE(on_second.is_object());
  EXPECT_EQ(on_second.at("devices").at(0).at("lost"), true);
  EXPECT_EQ(on_second.at("compared_on"), on_second.at("devices").at(1).at("uuid"));
  expect_alike(on_second, alone);
  SQLite::Database rows((directory_.path() / "0,1-lost0.db").string());
  EXPECT_EQ(rows.execAndGet("SELECT count(*) FROM plan_measurement WHERE outcome = 'ok' AND "
                            "reference_us IS NULL")
                .getInt(),
            0)
      << "they were timed by themselves";
}

// A report of several GPUs, which has commands for one.
TEST_F(CudaCommands, CommandsThatASearchOnTwoGpusShowsAreForOne) {
  const ScopedVariable pair("FUSETUNE_FAKE_DRIVER", "pair");
  const Outcome done = run({"search", "--strategy", "exhaustive", "--trials", "2", "--samples", "2",
                            "--min-time", "0.01", "--quiet", "--device", "1,0"});
  EXPECT_EQ(done.exit_code, 1) << done.out << done.err;  // two kernels make no plan
  // Whichever is free: a device that another test times on is left alone.
  EXPECT_THAT(done.out,
              AllOf(testing::ContainsRegex("GPU 1 measured [012], GPU 0 measured [012]"),
                    HasSubstr("no plan found"), HasSubstr("fusetune search"), HasSubstr("--device 1,0")));
  const ScopedVariable faults("FUSETUNE_FAKE_FAULTS", "resources:segment_");
  const Outcome failed = run({"search", "--strategy", "exhaustive", "--trials", "2", "--samples", "2",
                              "--min-time", "0.01", "--quiet", "--device", "1,0", "--fresh"});
  EXPECT_THAT(failed.out, AllOf(HasSubstr("repeat: fusetune verify"), HasSubstr("--device 1 ")));
}

TEST_F(CudaCommands, DevicesThatCannotBeSharedSayWhy) {
  const auto said = [&](const std::string& devices) { return search({"--device", devices}).err; };
  EXPECT_THAT(said("0,0"), HasSubstr("--device 0,0: GPU 0 is named twice"));
  EXPECT_THAT(said("0,"), HasSubstr("'' is no GPU's number"));
  EXPECT_THAT(said("0,x"), HasSubstr("'x' is no GPU's number"));
  EXPECT_THAT(said("0,1"), AllOf(HasSubstr("no CUDA device 1"), HasSubstr("lists 1")));
  EXPECT_THAT(run({"verify", "0", "--device", "0,1"}).err, HasSubstr("this command runs on one GPU"));
  EXPECT_THAT(fusetune({"search", "--device", "0,1"}).err,
              HasSubstr("--device means nothing to --backend cpu: it says which GPUs"));
  const ScopedVariable odd("FUSETUNE_FAKE_DRIVER", "odd");
  const Outcome differ = search({"--device", "0,1"});
  EXPECT_EQ(differ.exit_code, 2);
  EXPECT_THAT(differ.err, AllOf(HasSubstr("GPUs 0 and 1 are not of one kind (device Fake H100 and Fake A100, "
                                          "compute 90 and 80"),
                                HasSubstr("search on the others by themselves")));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "fusetune.db")) << "nothing was measured";
}

/// The emulator's compiler as a script in `folder`, with the cache that all tests share.
std::string compiler_with_shared_cache(const std::filesystem::path& folder) {
  const std::filesystem::path script = folder / "compiler";
  base::write_file_atomic(script, "#!/bin/sh\nFUSETUNE_CACHE_DIR='" + base::cache_directory().string() +
                                      "' exec '" FAKE_KERNELS "' \"$@\"\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  return script.string();
}

// A search of the unfused plan's kernels, then the same with nothing but what that left in the cache.
TEST_F(CudaCommands, WithoutNvrtcTheCacheIsSearchedAndNothingElseIsHeldAgainstAKernel) {
  const ScopedVariable compiler("FUSETUNE_FAKE_COMPILER", compiler_with_shared_cache(folder_.path()));
  const base::TemporaryDirectory cache;
  const ScopedVariable directory("FUSETUNE_CACHE_DIR", cache.path().string());
  const ScopedVariable no_library("FUSETUNE_CUBLASLT", "/no/such/libcublasLt.so");
  const auto search_kernels = [this](const std::string& trials, const std::string& database) {
    const Outcome searched = run({"search", "--strategy", "exhaustive", "--trials", trials, "--samples", "2",
                                  "--min-time", "0.01", "--pairs", "20", "--json", "-", "--db", database});
    EXPECT_EQ(searched.exit_code, 0) << searched.out << searched.err;
    return searched;
  };
  const auto skipped = [](const Json& result) {
    return result.at("search").at("outcomes").value("skipped", 0);
  };
  const Json first = Json::parse(search_kernels("15", "first.db").out);
  EXPECT_EQ(skipped(first), 0);

  const ScopedVariable none("FUSETUNE_NVRTC", "/no/such/libnvrtc.so");
  const Outcome searched = search_kernels("15", "second.db");
  EXPECT_THAT(searched.err, AllOf(HasSubstr("/no/such/libnvrtc.so"), HasSubstr("others are skipped")));
  const Json second = Json::parse(searched.out);
  EXPECT_EQ(skipped(second), 0) << searched.out;
  for (const char* what : {"mask", "schedules"})
    EXPECT_EQ(second.at("best").at(what), first.at("best").at(what)) << what;

  // Other schedules of the products come next. What became of them is kept nowhere.
  const Json more = Json::parse(search_kernels("2", "second.db").out);
  EXPECT_GT(skipped(more), 0) << more;
  EXPECT_EQ(more.at("best").at("mask"), first.at("best").at("mask"));
  const Outcome kept = fusetune({"db", "export", "--db", "second.db"}, directory_.path());
  EXPECT_THAT(kept.out, AllOf(HasSubstr("\"outcome\":\"ok\""), Not(HasSubstr("\"outcome\":\"skipped\""))));

  const Outcome other = run({"run", "48996"});
  EXPECT_EQ(other.exit_code, 3) << other.err;
  EXPECT_THAT(other.err, AllOf(HasSubstr("has no image of it by NVRTC"), HasSubstr("install CUDA")));
}

TEST_F(CudaCommands, WhatCannotBeSaysWhy) {
  const Outcome unsearched = run({"export", "best", "--out", "none"});
  EXPECT_EQ(unsearched.exit_code, 2);
  EXPECT_THAT(unsearched.err, HasSubstr("run fusetune search with the same options first"));
  EXPECT_THAT(run({"verify", "0", "--threads", "2"}).err,
              HasSubstr("--threads means nothing to --backend cuda"));
  EXPECT_THAT(run({"verify", "0", "--device", "3"}).err,
              AllOf(HasSubstr("no CUDA device 3"), HasSubstr("lists 1")));
  EXPECT_THAT(fusetune({"verify", "0", "--device", "0"}).err,
              HasSubstr("--device means nothing to --backend cpu"));
  const ScopedVariable none("FUSETUNE_DRIVER", "/nonexistent/libcuda.so.1");
  const Outcome without = run({"verify", "0"});
  EXPECT_EQ(without.exit_code, 3);
  EXPECT_THAT(without.err, HasSubstr("cannot open NVIDIA's driver library"));
}

}  // namespace
}  // namespace fusetune::cli_test
