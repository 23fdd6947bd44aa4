// GPU bundles as their users meet them, on the fake driver: exported, built, verified, wrong, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// [0-6][7][8-14]: kernels of several stages, that wait by grid and by rows, and one that takes more shared
/// memory than is free.
const std::string kSchedules =
    " --schedule-text '[7]: handoff=barrier sync=grid warps=8 tile=128x128x32 stages=3 split=1 query=64 "
    "rows=16 ffn=256'"
    " --schedule-text '[8-14]: handoff=fused sync=rows warps=8 tile=128x128x32 stages=3 split=1 query=64 "
    "rows=16 "
    "ffn=256'";
const std::string kBlock = " --batch 2 --seq 33 --heads 2 --head-size 40 --ffn 72 --mask causal --dtype f16";
const std::string kKey =
    "batch=2 seq=33 heads=2 head_size=40 ffn=72 layers=12 mask=causal dtype=f16 eps=1e-12 gelu=erf "
    "data=uniform "
    "seed=0";

const std::string kExport =
    "\"$FUSETUNE\" export $(\"$FUSETUNE\" encode --segment 1-7 9-15 | cut -d' ' -f1)" + kBlock + kSchedules +
    " --backend cuda --name enc --out b";

/// Each test has a copy of one bundle that the first of them exported with this very program.
class CudaProgram : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path shared = fs::path(EXPORT_TEST_CACHE) /
                            ("cuda-bundle-" + base::hash_hex(base::read_file(FUSETUNE_PROGRAM) + kExport));
    fs::create_directories(at("kernels"));
    base::write_file_atomic(at("kernels/problem"), kKey + "\n");
    const Outcome indexed = run("\"$FUSETUNE_FAKE_COMPILER\" kernels");
    ASSERT_EQ(indexed.exit_code, 0) << indexed.err;
    if (!fs::exists(shared)) {
      const Outcome made = run(kExport);
      if (made.err.find("cannot open NVRTC") != std::string::npos) GTEST_SKIP() << made.err;
      ASSERT_EQ(made.exit_code, 0) << made.out << made.err;
      ASSERT_THAT(made.out, HasSubstr("checked in the emulator"));
      fs::create_directories(EXPORT_TEST_CACHE);
      const Outcome kept = run("new=$(mktemp -d '" EXPORT_TEST_CACHE
                               "'/new-XXXXXX) && cp -r b b.tar.gz $new && { mv -T $new '" +
                               shared.string() + "' || rm -r $new; }");
      ASSERT_EQ(kept.exit_code, 0) << kept.err;
    }
    const Outcome copied =
        run("rm -rf b && cp -r '" + shared.string() + "/b' . && cp '" + shared.string() + "/b.tar.gz' .");
    ASSERT_EQ(copied.exit_code, 0) << copied.err;
  }

  fs::path at(const std::string& name) const { return directory_.path() / name; }
  Outcome run(const std::string& script) const {
    return shell("export FUSETUNE_CACHE_DIR='" EXPORT_TEST_CACHE "' FUSETUNE_DRIVER='" FAKE_DRIVER
                 "' FUSETUNE_CUBLASLT=/nowhere/libcublasLt.so FUSETUNE_FAKE_COMPILER='" FAKE_KERNELS
                 "' FUSETUNE_FAKE_DRIVER=small FUSETUNE_FAKE_KERNELS=\"$PWD/kernels\"\n" +
                     script,
                 directory_.path());
  }
  /// Configures and builds with every warning an error.
  Outcome build(const std::string& options = "") const {
    const std::string flags = "'-Wall -Wextra -Wshadow -Wconversion -Werror'";
    return run("{ '" TEST_CMAKE "' -S b -B built -G '" TEST_GENERATOR "' -DCMAKE_C_FLAGS=" + flags +
               " -DCMAKE_CXX_FLAGS=" + flags + " " + options +
               " && '" TEST_CMAKE "' --build built -j 2; } >log 2>&1 || { cat log; exit 1; }");
  }

  base::TemporaryDirectory directory_;
};

TEST_F(CudaProgram, BuildsWithoutAToolkitAndItsVerifyProgramPasses) {
  const Outcome built = build("-DCMAKE_INSTALL_PREFIX=\"$PWD/installed\"");
  ASSERT_EQ(built.exit_code, 0) << built.out;
  const Outcome verified = run("built/enc_verify");
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("PASSED"));
  const Outcome installed =
      run("'" TEST_CMAKE
          "' --install built >/dev/null && find installed -name 'enc.h' && ldd installed/lib*/libenc.so && "
          "nm -D --defined-only installed/lib*/libenc.so | awk '{print $3}' | grep -v '^enc_'");
  EXPECT_THAT(installed.out, HasSubstr("enc.h"));
  EXPECT_THAT(installed.out, Not(HasSubstr("libcuda"))) << "the driver is opened at run time";
  EXPECT_EQ(installed.exit_code, 1) << "other names than its own: " << installed.out;
}

TEST_F(CudaProgram, VerifyProgramFindsAWrongWeight) {
  const Outcome changed =
      run("sed -i 's/{\"w_ffn2\", 72, 80, Kind::uniform, -0.4, 0.4}/{\"w_ffn2\", 72, 80, "
          "Kind::uniform, -0.4, 0.404}/' b/verify/data.h && grep -c 0.404 b/verify/data.h");
  ASSERT_EQ(changed.out, "1\n");
  const Outcome built = build();
  ASSERT_EQ(built.exit_code, 0) << built.out;
  const Outcome verified = run("built/enc_verify");
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_THAT(verified.out, HasSubstr("FAILED"));
}

/// A launcher that leaves one thing out must not pass: the workspace is poisoned before every run, the device
/// holds fewer blocks than there are tasks, and one kernel takes more shared memory than is free.
TEST_F(CudaProgram, NothingOfALaunchMayBeLeftOut) {
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"clearing the counters", "s/(size_t)layout.sync_words, stream)/0, stream)/"},
      {"the limit of the grid", "s/^  loaded->resident = (int64_t)blocks.*/  loaded->resident = 1000000;/"},
      {"asking for shared memory", "s/kFreeSharedBytes = 48 << 10/kFreeSharedBytes = 480 << 10/"},
      {"the later kernels", "s/i < ENC_KERNELS \\&\\& status == ENC_OK; ++i)$/i < 1; ++i)/"}};
  const Outcome kept = run("cp b/src/block.c block.c");
  ASSERT_EQ(kept.exit_code, 0);
  for (const auto& [what, edit] : edits) {
    const Outcome changed = run("cp block.c b/src/block.c && sed -i '" + edit +
                                "' b/src/block.c && ! cmp -s block.c b/src/block.c");
    ASSERT_EQ(changed.exit_code, 0) << what;
    const Outcome built = run("{ '" TEST_CMAKE "' -S b -B built -G '" TEST_GENERATOR "' && '" TEST_CMAKE
                              "' --build built -j 2; } >log 2>&1 || { cat log; exit 1; }");
    ASSERT_EQ(built.exit_code, 0) << what << "\n" << built.out;
    const Outcome verified = run("timeout 20 built/enc_verify");
    EXPECT_NE(verified.exit_code, 0) << what << "\n" << verified.out;
  }
}

/// The example of README.md, as a user would compile it.
TEST_F(CudaProgram, ExampleIsAStrictC11Program) {
  const Outcome compiled =
      run("for d in \"$CUDA_HOME\" /usr/local/cuda /usr; do [ -f \"$d/include/cuda.h\" ] && break; done; "
          "[ -f \"$d/include/cuda.h\" ] || exit 77; sed -n '/^```c/,/^```/p' b/README.md | grep -v '^```' > "
          "example.c; "
          "cc=$(command -v cc || command -v gcc || command -v clang); "
          "$cc -std=c11 -pedantic -Wall -Wextra -Werror -Ib/include -isystem \"$d/include\" -fsyntax-only "
          "example.c");
  if (compiled.exit_code == 77) GTEST_SKIP() << "no cuda.h under $CUDA_HOME, /usr/local/cuda or /usr";
  EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
}

TEST_F(CudaProgram, NvccMakesTheSameKernels) {
  if (run("PATH=\"$PATH:/usr/local/cuda/bin\" command -v nvcc").exit_code != 0)
    GTEST_SKIP() << "nvcc is neither in PATH nor in /usr/local/cuda/bin";
  const Outcome built = build("-DENC_COMPILE_KERNELS=ON");
  ASSERT_EQ(built.exit_code, 0) << built.out;
  EXPECT_THAT(run("ls built/cubin").out, HasSubstr("segment_0_6.cubin"));
  const Outcome verified = run("built/enc_verify");
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

TEST_F(CudaProgram, CubinsAreForOneArchitecture) {
  const Outcome built = build("-DENC_ARCHITECTURE=sm_80");
  EXPECT_EQ(built.exit_code, 1);
  EXPECT_THAT(built.out, HasSubstr("-DENC_COMPILE_KERNELS=ON"));
}

TEST_F(CudaProgram, EveryRefusalHasACodeAndWords) {
  const std::string sources = FUSETUNE_SOURCE_DIR "/tests/export/";
  const Outcome built = run("cp '" + sources + "cuda_refusals.cpp' b/verify/verify.cpp");
  ASSERT_EQ(built.exit_code, 0);
  const Outcome made = run("'" TEST_CMAKE "' -S b -B built -G '" TEST_GENERATOR
                           "' -DCMAKE_CXX_FLAGS=-I\"$PWD/b/src\" >log 2>&1 && '" TEST_CMAKE
                           "' --build built -j 2 >>log 2>&1 || { cat log; exit 1; }");
  ASSERT_EQ(made.exit_code, 0) << made.out;
  const Outcome calls = run("built/enc_verify");
  EXPECT_EQ(calls.exit_code, 0) << calls.out << calls.err;
  const Outcome none = run("FUSETUNE_DRIVER=/nowhere/libcuda.so.1 built/enc_verify");
  EXPECT_EQ(none.exit_code, 42) << none.out;
  EXPECT_THAT(none.out, HasSubstr("install NVIDIA's driver"));
}

TEST_F(CudaProgram, SaysWhatItIsAndIsTheSameTwice) {
  const auto manifest = nlohmann::json::parse(base::read_file(at("b/manifest.json")));
  EXPECT_EQ(manifest["target"], "cuda");
  EXPECT_EQ(manifest["architecture"], "sm_90a");
  EXPECT_EQ(manifest["emulator"]["verdict"], "nothing found");
  EXPECT_EQ(manifest["emulator"]["batch"], 1);
  EXPECT_EQ(manifest["emulator"]["kernels"].size(), 3u);
  EXPECT_LE(manifest["checked"]["norm_error"], 1.5e-3);
  EXPECT_EQ(run("cd b && sha256sum --quiet -c SHA256SUMS").exit_code, 0);
  const Outcome again =
      run("mv b.tar.gz first.tar.gz && " + kExport + " --force && cmp first.tar.gz b.tar.gz");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const Outcome bare =
      run("\"$FUSETUNE\" export 65535" + kBlock +
          " --backend cuda --no-emulation --no-archive --out c && grep verdict c/manifest.json");
  EXPECT_THAT(bare.out, HasSubstr("not checked in the emulator"));
  EXPECT_THAT(bare.out, HasSubstr("left out"));
}

/// Where there is neither GPU nor driver: compiled and emulated, for whoever has one.
TEST(CudaExport, NeedsNoGpu) {
  const base::TemporaryDirectory directory;
  const Outcome made = shell("export FUSETUNE_CACHE_DIR='" EXPORT_TEST_CACHE
                             "' FUSETUNE_DRIVER=/nowhere/libcuda.so.1; \"$FUSETUNE\" "
                             "export 48996" +
                                 kBlock + " --target cuda --arch sm_80 --out b && cat b/README.md",
                             directory.path());
  if (made.err.find("cannot open NVRTC") != std::string::npos) GTEST_SKIP() << made.err;
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("7 kernels for sm_80, checked in the emulator"));
  EXPECT_THAT(made.out, HasSubstr("not run: exported without a GPU"));
  const auto manifest = nlohmann::json::parse(base::read_file(directory.path() / "b/manifest.json"));
  EXPECT_TRUE(manifest["checked"].is_null());
  EXPECT_EQ(manifest["emulator"]["verdict"], "nothing found");
}

TEST(CudaExport, RefusesByNameBeforeAnyWork) {
  const auto refuses = [](const std::string& words, const std::string& why) {
    const Outcome run = shell("\"$FUSETUNE\" export 48996 --out b " + words);
    EXPECT_EQ(run.exit_code, 2) << words << run.err;
    EXPECT_THAT(run.err, HasSubstr(why)) << words;
  };
  refuses("--target cuda", "--arch sm_90a");
  refuses("--target cuda --arch sm_70", "sm_80");
  refuses("--target cuda --arch sm_80 --no-emulation", "--backend cuda");
  refuses("--target cuda --arch sm_80 --threads 2", "--threads");
  refuses("--target cuda --backend cpu", "add --backend cuda");
  refuses("--backend cuda --arch sm_80", "--arch goes with");
  refuses("--target cpu --backend cuda", "--backend cpu");
  refuses("--no-emulation", "--backend cuda");
  refuses("--backend cuda --threads 2", "--threads");
}

}  // namespace
}  // namespace fusetune::cli_test
