// Bundles as their users meet them: built elsewhere, called from C, C++ and Python, refused, replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/file.h"
#include "base/hash.h"
#include "block/data.h"
#include "cli/program.h"
#include "export/sha256.h"
#include "plan/fusion_plan.h"
#include "store/tuning_store.h"

namespace fusetune::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// Odd sizes: no multiple of a tile, a vector or a mask tile. [0-1][2-6]*[7-14].
const std::string kBlock = " --batch 2 --seq 33 --heads 3 --head-size 40 --ffn 96 --layers 2 --threads 2";
const std::string kMask = " --mask causal:padding_lengths=33/20";
const std::string kHere = "export FUSETUNE_CACHE_DIR='" EXPORT_TEST_CACHE "'; ";
const std::string kSources = FUSETUNE_SOURCE_DIR "/tests/export/";

/// Each test has a copy of one bundle that the first of them exported with this very program: ctest runs
/// every test in a process of its own, and exporting takes longer than most of what is tested.
class Bundle : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome encode = shell("\"$FUSETUNE\" encode --segment 1-2 3-7 8-15 --hand-written");
    plan_ = encode.out.substr(0, encode.out.find_first_of(" \n"));
    const fs::path shared =
        fs::path(EXPORT_TEST_CACHE) / ("bundle-" + base::hash_hex(base::read_file(FUSETUNE_PROGRAM)));
    if (!fs::exists(shared / "b.tar.gz")) {
      const Outcome made = run("\"$FUSETUNE\" export " + plan_ + kBlock + kMask + " --name enc --out b");
      ASSERT_EQ(made.exit_code, 0) << made.out << made.err;
      ASSERT_THAT(made.out, HasSubstr("PASSED"));
      // Whole at once, whoever comes first.
      const std::string cache = "'" EXPORT_TEST_CACHE "'";
      const Outcome kept = run("mkdir -p " + cache + " && new=$(mktemp -d " + cache +
                               "/new-XXXXXX) && cp -r b b.tar.gz $new && "
                               "{ mv -T $new '" +
                               shared.string() + "' || rm -r $new; }");
      ASSERT_EQ(kept.exit_code, 0) << kept.err;
    }
    const Outcome copied =
        run("rm -rf b b.tar.gz && cp -r '" + shared.string() + "'/b '" + shared.string() + "'/b.tar.gz .");
    ASSERT_EQ(copied.exit_code, 0) << copied.err;
  }

  fs::path at(const std::string& name) const { return directory_.path() / name; }
  Outcome run(const std::string& script) const { return shell(kHere + script, directory_.path()); }
  nlohmann::json manifest(const std::string& bundle) const {
    return nlohmann::json::parse(base::read_file(at(bundle) / "manifest.json"));
  }

  base::TemporaryDirectory directory_;
  std::string plan_;
};

TEST_F(Bundle, ManifestSaysWhatIsInside) {
  const nlohmann::json json = manifest("b");
  EXPECT_EQ(json["bundle_format"], 1);
  EXPECT_EQ(json["problem"]["seq"], 33);
  EXPECT_EQ(json["plan"]["segments"], "[0-1][2-6]*[7-14]");
  EXPECT_EQ(json["kernels"].size(), 3u);
  EXPECT_TRUE(json["measured"].is_null());
  EXPECT_LE(json["checked"]["norm_error"], 1e-5);
  for (const auto& [path, hash] : json["sha256"].items())
    EXPECT_EQ(hash, exporting::sha256(base::read_file(at("b") / path))) << path;
  EXPECT_EQ(run("cd b && sha256sum --quiet -c SHA256SUMS && find . -type f | grep -vc SHA256SUMS").exit_code,
            0);
  const std::string all = base::read_file(at("b") / "manifest.json");
  EXPECT_THAT(all, Not(HasSubstr(directory_.path().string()))) << "no path of the exporting machine";
}

TEST_F(Bundle, LibraryNeedsTheSystemOnlyAndShowsItsOwnNamesOnly) {
  const Outcome needs = run("ldd b/lib/libenc.so");
  ASSERT_EQ(needs.exit_code, 0);
  std::istringstream lines(needs.out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_THAT(line,
                testing::ContainsRegex("linux-vdso|libc\\.so|libm\\.so|libstdc|libgcc|libpthread|/ld-linux"));
  const Outcome names = run("nm -D --defined-only b/lib/libenc.so | awk '{print $3}' | grep -v '^enc_'");
  EXPECT_EQ(names.out, "");
}

TEST_F(Bundle, BuildsWithNothingButCMakeAndACompiler) {
  // -ffast-math from the surrounding project must not reach the kernels: masks need infinities.
  const Outcome build =
      run("cp -r b elsewhere && cd elsewhere && rm -r lib bin && env -i PATH=/usr/bin:/bin '" TEST_CMAKE
          "' -S . -B build -G '" TEST_GENERATOR "' -DCMAKE_CXX_COMPILER='" TEST_CXX
          "' -DCMAKE_CXX_FLAGS=-ffast-math >log 2>&1 && "
          "env -i PATH=/usr/bin:/bin '" TEST_CMAKE
          "' --build build -j 2 >>log 2>&1 || { cat log; exit 1; }; "
          "env -i build/enc_verify && '" TEST_CMAKE
          "' --install build --prefix installed >/dev/null && ls installed/*");
  ASSERT_EQ(build.exit_code, 0) << build.out << build.err;
  EXPECT_THAT(build.out, HasSubstr("PASSED"));
  EXPECT_THAT(build.out, HasSubstr("enc.h"));
}

// With PyTorch, tests/peers/test_torch_operator.py builds and runs it.
TEST_F(Bundle, PyTorchIsNeededOnlyWhereItsOperatorIsAskedFor) {
  if (std::string(TEST_PYTHON).empty()) GTEST_SKIP() << "no python3";
  const Outcome module = run("'" TEST_PYTHON "' -m py_compile b/pytorch/enc_torch.py");
  EXPECT_EQ(module.exit_code, 0) << module.err;
  if (run("'" TEST_PYTHON "' -c 'import torch'").exit_code == 0) GTEST_SKIP() << "python3 has PyTorch";
  const Outcome asked =
      run("'" TEST_CMAKE "' -S b -B asked -G '" TEST_GENERATOR "' -DCMAKE_CXX_COMPILER='" TEST_CXX
          "' -DFUSETUNE_TORCH=ON -DPython3_EXECUTABLE='" TEST_PYTHON "'");
  EXPECT_NE(asked.exit_code, 0);
  EXPECT_THAT(asked.err, HasSubstr("FUSETUNE_TORCH: " TEST_PYTHON " cannot import torch"));
  EXPECT_THAT(asked.err, HasSubstr("-DPython3_EXECUTABLE"));
}

TEST_F(Bundle, VerifyProgramFindsAWrongOutput) {
  std::string expected = base::read_file(at("b/verify/expected.bin"));
  float value;
  std::memcpy(&value, expected.data() + 4000, sizeof value);
  value += 0.01f;
  std::memcpy(expected.data() + 4000, &value, sizeof value);
  base::write_file_atomic(at("wrong.bin"), expected);
  base::write_file_atomic(at("short.bin"), expected.substr(4));
  const Outcome wrong = run("b/bin/enc_verify --expected wrong.bin");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.out, HasSubstr("FAILED"));
  EXPECT_EQ(run("b/bin/enc_verify --expected short.bin").exit_code, 1);
  EXPECT_EQ(run("b/bin/enc_verify --expected absent.bin").exit_code, 1);
}

TEST_F(Bundle, TimesItselfWithFusetunesOwnTimer) {
  EXPECT_EQ(base::read_file(at("b/verify/sampling.h")),
            base::read_file(FUSETUNE_SOURCE_DIR "/src/measure/sampling.h"));
  const Outcome alone = run("echo '#include \"sampling.h\"' > alone.cpp && '" TEST_CXX
                            "' -std=c++17 -Wall -Wextra -Wshadow -Wconversion -Werror -pedantic "
                            "-fsyntax-only -Ib/verify alone.cpp");
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  const Outcome timed = run("b/bin/enc_verify --threads 1");
  ASSERT_EQ(timed.exit_code, 0) << timed.out << timed.err;
  std::smatch of_samples, of_time;
  ASSERT_TRUE(std::regex_search(
      timed.out, of_samples,
      std::regex("\ndropped +(\\d+) of (\\d+) samples, interrupted by other processes(: noisy)?\n")))
      << timed.out;
  const int dropped = std::stoi(of_samples[1]), taken = std::stoi(of_samples[2]);
  EXPECT_GE(taken, 11);
  EXPECT_EQ(of_samples[3].matched, 5 * dropped > taken) << timed.out;
  if (dropped == taken) {
    EXPECT_THAT(timed.out, HasSubstr("\ntime         none: other processes interrupted every sample\n"));
    GTEST_SKIP() << "this machine is too busy to time anything";
  }
  ASSERT_TRUE(
      std::regex_search(timed.out, of_time,
                        std::regex("\ntime +([0-9.]+) ms, median of (\\d+) samples of (\\d+) runs? on 1 "
                                   "thread \\(fastest ([0-9.]+) ms\\)\n")))
      << timed.out;
  EXPECT_EQ(std::stoi(of_time[2]) + dropped, taken);
  EXPECT_LE(std::stod(of_time[4]), std::stod(of_time[1]));
}

TEST_F(Bundle, EveryRefusalHasACodeAndWords) {
  const Outcome calls =
      run("'" TEST_CXX "' -std=c++20 -O1 -Ib/include -Ib/verify '" + kSources +
          "refusals.cpp' -o refusals -Lb/lib -lenc -Wl,-rpath,\"$PWD/b/lib\" -pthread && ./refusals");
  EXPECT_EQ(calls.exit_code, 0) << calls.out << calls.err;
}

TEST_F(Bundle, IsCleanUnderTheAddressSanitizer) {
  // Everything but the kernels, whose every write is checked with guard bytes elsewhere and which take a
  // minute to compile that way.
  const Outcome calls =
      run("flags=$(sed -n 's/^ *\\(-m[a-z0-9=-]*\\).*/\\1/p' b/CMakeLists.txt | tr '\\n' ' '); for f in "
          "b/src/segment_*.cpp; do '" TEST_CXX
          "' -std=c++20 -O0 -w $flags -c $f -o $f.o || exit 1; done; '" TEST_CXX
          "' -std=c++20 -O1 -w -fsanitize=address,undefined -fno-sanitize-recover=undefined -Ib/include "
          "-Ib/verify "
          "-Ib/src '" +
          kSources + "refusals.cpp' b/src/[bcemtw]*.cpp b/src/*.o -o sanitized -pthread && ./sanitized");
  EXPECT_EQ(calls.exit_code, 0) << calls.out << calls.err;
}

TEST_F(Bundle, IsCleanUnderTheThreadSanitizer) {
  // Kernels, barrier and threads together, on more threads than most machines that test have CPUs. Without
  // address randomization, of which some kernels do more than the sanitizer of GCC 12 expects.
  const Outcome verified =
      run("setarch -R true 2>/dev/null && fixed='setarch -R'; flags=$(sed -n 's/^ "
          "*\\(-m[a-z0-9=-]*\\).*/\\1/p' b/CMakeLists.txt | tr '\\n' ' '); '" TEST_CXX
          "' -std=c++20 -O1 -w $flags -fsanitize=thread -Ib/include -Ib/src -Ib/verify b/src/*.cpp "
          "b/verify/*.cpp "
          "-o threads -pthread && for n in 1 3; do TSAN_OPTIONS=halt_on_error=1 $fixed ./threads "
          "--threads $n "
          "--expected b/verify/expected.bin || exit 1; done");
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("PASSED"));
}

TEST_F(Bundle, ACpuWithoutTheFeaturesIsRefusedByName) {
  const Outcome lacking =
      run("cp -r b lacking && sed -i 's/kRequired = 0x[0-9a-f]*/kRequired = 0x7ff/' "
          "lacking/src/cpu_check.cpp && '" TEST_CXX "' -std=c++20 -Ilacking/src '" +
          kSources +
          "lacking_cpu.cpp' lacking/src/[bcemtw]*.cpp -o cpu -pthread -Wl,--unresolved-symbols=ignore-all && "
          "./cpu");
  EXPECT_EQ(lacking.exit_code, 0) << lacking.out << lacking.err;
}

TEST_F(Bundle, ExampleIsAStrictC11Program) {
  const Outcome example =
      run("sed -n '/^```c$/,/^```$/p' b/README.md | grep -v '```' > example.c && cc -std=c11 -Wall -Wextra "
          "-Werror "
          "-pedantic -Ib/include -c example.c -o example.o && grep -c '^  ' example.c && "
          "printf '#include \"enc.h\"\\nint main() { return enc_run(0, 0, 0, 0, 0) != ENC_NULL_POINTER; "
          "}\\n' > header.cpp "
          "&& '" TEST_CXX
          "' -std=c++11 -Wall -Wextra -Werror -pedantic -Ib/include header.cpp -o header -Lb/lib -lenc "
          "-Wl,-rpath,\"$PWD/b/lib\" && ./header");
  EXPECT_EQ(example.exit_code, 0) << example.out << example.err;
  EXPECT_EQ(example.out, "10\n") << "ten lines in a function are all it takes";
}

TEST_F(Bundle, GeneratedDataIsFusetunesBitForBit) {
  ASSERT_EQ(run("'" TEST_CXX "' -std=c++20 -O2 -ffp-contract=off -Ib/verify '" + kSources +
                "dump_data.cpp' -o dump && ./dump > data.bin")
                .exit_code,
            0);
  block::Problem problem = block::Problem::parse(manifest("b")["problem"]["key"].get<std::string>());
  const block::BlockData data = block::generate_data(problem);
  std::string want(reinterpret_cast<const char*>(data.hidden.data()), data.hidden.size() * sizeof(float));
  for (const auto* list : {&data.weights[0], &data.weights[1], &data.weights[2], &data.weights[3]})
    want.append(reinterpret_cast<const char*>(list->data()), list->size() * sizeof(float));
  for (const auto& list : data.parameters)
    want.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(float));
  EXPECT_TRUE(base::read_file(at("data.bin")) == want);
}

TEST_F(Bundle, PythonGetsWhatRunGets) {
  if (std::string(TEST_PYTHON).empty()) GTEST_SKIP() << "no python3";
  const std::string script = "'" TEST_PYTHON "' '" + kSources + "call_bundle.py' b/lib/libenc.so ";
  const Outcome same = run("\"$FUSETUNE\" run " + plan_ + kBlock + kMask +
                           " --output y.npy --save-data data && " + script + "data y.npy");
  if (same.exit_code == 77) GTEST_SKIP() << "no NumPy";
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  // Lengths at run time are the same as another mask.
  const Outcome other =
      run("\"$FUSETUNE\" run " + plan_ + kBlock + " --mask causal:padding_lengths=7/33 --output y2.npy && " +
          script + "data y2.npy 7 33");
  EXPECT_EQ(other.exit_code, 0) << other.out << other.err;
  const Outcome whole = run("\"$FUSETUNE\" run " + plan_ + kBlock + " --mask causal --output y3.npy && " +
                            script + "data y3.npy 33 33");
  EXPECT_EQ(whole.exit_code, 0) << whole.out << whole.err;
}

TEST_F(Bundle, TwoExportsAreTheSameBytesAndReplaceOnlyBundles) {
  const std::string command = "\"$FUSETUNE\" export " + plan_ + kBlock + kMask + " --name enc ";
  const Outcome refused = run(command + "--out b");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(run("mkdir mine && touch mine/thesis").exit_code, 0);
  const Outcome mine = run(command + "--out mine --force");
  EXPECT_EQ(mine.exit_code, 2);
  EXPECT_THAT(mine.err, HasSubstr("no bundle"));
  ASSERT_EQ(run("cp b.tar.gz first.tar.gz").exit_code, 0);
  const Outcome again = run(command + "--out b --force");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(run("cmp first.tar.gz b.tar.gz").exit_code, 0);
  EXPECT_EQ(run("mkdir unpacked && tar -xzf b.tar.gz -C unpacked && diff -r unpacked/enc b").exit_code, 0);
  EXPECT_EQ(run("ls -A | grep '^\\.b'").out, "") << "nothing is left beside it";
}

TEST_F(Bundle, AnInterruptLeavesNothing) {
  const Outcome stopped =
      run("mkdir stop && cd stop && { \"$FUSETUNE\" export " + plan_ + kBlock +
          " --mask full --name enc --out b & } && pid=$! && for i in $(seq 1000); do ls -d .b.* "
          ">/dev/null 2>&1 && break; sleep 0.05; done; kill -INT $pid; wait $pid; echo code $?; "
          "ls -A");
  EXPECT_EQ(stopped.out, "code 130\n") << stopped.err;
}

TEST_F(Bundle, AWrongPlanIsNotExported) {
  fs::copy(FUSETUNE_SOURCE_DIR "/kernels", at("kernels"), fs::copy_options::recursive);
  std::string math = base::read_file(at("kernels/cpu/rows.h"));
  const std::string place = "if (!mask.length) return;";
  ASSERT_NE(math.find(place), std::string::npos) << "rows.h has changed: plant the fault elsewhere";
  math.replace(math.find(place), place.size(), "return;");
  base::write_file_atomic(at("kernels/cpu/rows.h"), math);
  const Outcome wrong =
      run("\"$FUSETUNE\" export " + plan_ + kBlock + kMask + " --kernel-dir kernels --out wrong");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("not exported"));
  EXPECT_FALSE(fs::exists(at("wrong")));
}

TEST_F(Bundle, BestIsTheNewestFinishedSearchsPlan) {
  const std::string best =
      "\"$FUSETUNE\" export best" + kBlock + kMask + " --no-archive --db best.db --name enc ";
  const Outcome nothing = run(best + "--out best");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("fusetune search"));

  // What a search would have recorded, with the kernels of the bundle that there is.
  const nlohmann::json made = manifest("b");
  base::Hasher hasher;
  std::vector<std::string> schedules, all_layouts;
  for (const auto& kernel : made["kernels"]) {
    std::string layouts;
    for (const char* weight : {"w_qkv", "w_out", "w_ffn1", "w_ffn2"})
      if (kernel["weight_layouts"].contains(weight))
        layouts += (layouts.empty() ? "" : " ") + std::string(weight) + "=" +
                   kernel["weight_layouts"][weight].get<std::string>();
    hasher.add(kernel["source_hash"].get<std::string>()).add(layouts);
    schedules.push_back(kernel["schedule"]);
    all_layouts.push_back(layouts);
  }
  const std::string key = made["problem"]["key"], fingerprint = made["environment"]["fingerprint"];
  store::TuningStore store(at("best.db"));
  const std::int64_t run_id = store.begin_run(key, {fingerprint, {}}, "{}");
  store::ComparisonRecord winner;
  winner.plan.problem = key;
  winner.plan.environment = fingerprint;
  winner.plan.mask = made["plan"]["mask"];
  winner.plan.schedules = schedules;
  winner.plan.sources_hash = hasher.hex();
  winner.plan.cache_mode = "model";
  winner.plan.measurement.outcome = measure::Outcome::ok;
  winner.plan.measurement.time.median_us = 120;
  winner.plan.measurement.time.min_us = 119;
  winner.plan.measurement.time.count = 12;
  store::PlanRecord other = winner.plan;  // so that the winner's row has a number of its own
  other.sources_hash = "other";
  store.record_plan(other);
  store.record_finalists(run_id, {&winner, 1});
  // Its last two segments were timed alone, the second of them under other settings.
  const auto variants = plan::FusionPlan::from_mask({winner.plan.mask}).variants();
  for (std::size_t i = 1; i < variants.size(); ++i) {
    store::TuningRecord segment;
    segment.key = {.problem = key,
                   .environment = fingerprint,
                   .variant = plan::variant_index(variants[i]),
                   .source_hash = made["kernels"][i]["source_hash"],
                   .layouts = all_layouts[i],
                   .cache_mode = "model"};
    if (i == 2) segment.key.settings = store::settings_text(2, 0.001);
    segment.schedule = schedules[i];
    segment.measurement = winner.plan.measurement;
    store.record(segment);
  }
  const nlohmann::json result = {{"best",
                                  {{"mask", made["plan"]["mask"]},
                                   {"schedules", schedules},
                                   {"pairs", 40},
                                   {"time_us", {{"value", 120.5}, {"low", 119.5}, {"high", 121.5}}}}}};
  store.finish_run(run_id, store::RunState::finished, result.dump(), "finalists");

  const Outcome found = run(best + "--out best");
  ASSERT_EQ(found.exit_code, 0) << found.out << found.err;
  const nlohmann::json json = manifest("best");
  EXPECT_EQ(json["measured"]["search_run"], run_id);
  EXPECT_EQ(json["measured"]["plan_measurement"], 2);
  EXPECT_EQ(json["measured"]["segment_measurements"], nlohmann::json::parse("[null, 1, null]"));
  EXPECT_EQ(json["measured"]["time_us"]["median"], 120.5);
  EXPECT_EQ(json["measured"]["cache_mode"], "model");
  EXPECT_EQ(json["kernels"][0]["schedule_from"], "search");
  EXPECT_FALSE(fs::exists(at("best.tar.gz")));

  // The same kernels, asked for by their mask: the rows that measured them, under whatever settings.
  const Outcome by_mask = run("\"$FUSETUNE\" export " + plan_ + kBlock + kMask +
                              " --no-archive --db best.db --name enc --out mask");
  ASSERT_EQ(by_mask.exit_code, 0) << by_mask.out << by_mask.err;
  const nlohmann::json named = manifest("mask");
  EXPECT_EQ(named["kernels"][1]["schedule_from"], "recorded");
  EXPECT_EQ(named["measured"]["segment_measurements"], nlohmann::json::parse("[null, 1, 2]"));
  EXPECT_EQ(named["measured"]["plan_measurement"], 2);
  EXPECT_EQ(named["measured"]["time_us"]["median"], 120);
  EXPECT_TRUE(named["measured"]["time_us"]["low"].is_null());
  EXPECT_TRUE(named["measured"]["search_run"].is_null());

  const Outcome elsewhere = run("\"$FUSETUNE\" export best" + kBlock + kMask +
                                " --isa generic --no-archive --db best.db --out generic");
  EXPECT_EQ(elsewhere.exit_code, 2);
}

// Here, because a bundle says what this machine's measurements are known by.
TEST_F(Bundle, RecordedSchedulesAreReadFromAFileThatMayNotBeWritten) {
  if (geteuid() != 0) GTEST_SKIP() << "needs a user whose rights it can give up";
  const nlohmann::json made = manifest("b");
  const std::string variant = made["kernels"][0]["segment"];
  {
    store::TuningStore store(at("recorded.db"));
    store.begin_run(made["problem"]["key"], {made["environment"]["fingerprint"], {}}, "{}");
    store::TuningRecord record;
    record.key = {
        .problem = made["problem"]["key"],
        .environment = made["environment"]["fingerprint"],
        .variant = plan::variant_index(plan::FusionPlan::from_mask({made["plan"]["mask"]}).variants()[0]),
        .source_hash = made["kernels"][0]["source_hash"],
        .layouts = "",
        .cache_mode = "model"};
    record.schedule = made["kernels"][0]["schedule"];
    record.measurement.outcome = measure::Outcome::ok;
    record.measurement.time = {1, 0, 1, 12};
    store.record(record);
  }
  const Outcome read =
      run("chmod 555 . && setpriv --reuid=65534 --regid=65534 --clear-groups true || exit 77\n"
          "setpriv --reuid=65534 --regid=65534 --clear-groups \"$FUSETUNE\" generate " +
          plan_ + kBlock + kMask + " --db recorded.db; code=$?; chmod 755 .; exit $code");
  if (read.exit_code == 77) GTEST_SKIP() << "cannot run as another user";
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_THAT(read.err, HasSubstr("looking at a copy"));
  EXPECT_THAT(read.err, HasSubstr("1 recorded")) << variant;
}

TEST(Export, RefusesByNameBeforeAnyWork) {
  const auto refuses = [](const std::string& words, const std::string& why) {
    const Outcome run = shell("\"$FUSETUNE\" export " + words);
    EXPECT_EQ(run.exit_code, 2) << words << run.err;
    EXPECT_THAT(run.err, HasSubstr(why)) << words;
  };
  refuses("48996 --target cuda --out b", "--arch sm_90a");
  refuses("48996 --target hip --out b", "later version");
  refuses("48996", "--out");
  refuses("--out b", "MASK|best");
  refuses("65536 --out b", "65535");
  refuses("worst --out b", "worst");
  refuses("48996 --out b --name 2x", "--name 2x");
  refuses("best --out b --schedule default", "--schedule");
  refuses("48996 --out b --dtype f16", "f16");
  refuses("48996 --out /dev/null", "no directory");
  refuses("48996 --out b --backend simt", "simt");
  const Outcome no_tar = shell("PATH=/nowhere \"$FUSETUNE\" export 48996 --out b");
  EXPECT_EQ(no_tar.exit_code, 3);
  EXPECT_THAT(no_tar.err, HasSubstr("--no-archive"));
}

/// Another problem: no padding, sizes of one vector, one kernel, generated as normal numbers.
TEST(Export, AllFusedOnAWindowedMask) {
  const base::TemporaryDirectory directory;
  const Outcome made =
      shell(kHere +
                "\"$FUSETUNE\" export 0 --batch 1 --seq 65 --heads 1 --head-size 33 --ffn 50 --layers 1 "
                "--threads 1 --isa generic --mask sliding:window=3 --data scaled --gelu tanh --out b/",
            directory.path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("PASSED"));
  EXPECT_TRUE(fs::exists(directory.path() / "b.tar.gz"));
  EXPECT_TRUE(fs::exists(directory.path() / "b/lib/libencoder_sliding_b1_s65_h1x33.so"));
}

}  // namespace
}  // namespace fusetune::cli_test
