// The files of a GPU bundle, without a GPU, a driver or NVRTC.
#include "export/cuda_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/subprocess.h"
#include "block/mask.h"
#include "export/manifest.h"
#include "export/mask_text.h"

namespace fusetune::exporting {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

block::Problem small_problem(block::Dtype dtype) {
  block::Problem problem;
  problem.batch = 2;
  problem.seq = 33;
  problem.heads = 2;
  problem.head_size = 40;
  problem.ffn = 72;
  problem.dtype = dtype;
  return problem;
}

using Wanted = std::function<bool(const lower::GpuSchedule&)>;

/// A variant under the first of its schedules that is wanted, else under its default.
CudaKernel kernel(const block::Problem& problem, plan::SegmentVariant variant, const Wanted& wanted) {
  const lower::GpuTarget target{.shared_bytes = 227 << 10, .multiprocessors = 4};
  lower::GpuSchedule schedule = lower::default_schedule(variant, problem, target);
  for (const lower::GpuSchedule& each : lower::program_space(variant, problem, target))
    if (wanted(each)) {
      schedule = each;
      break;
    }
  return {codegen::generate_gpu(variant, schedule, problem, target), "no real cubin"};
}

/// Kernels that wait by rows, split k, and do neither.
CudaBundleInput bundle(block::Dtype dtype) {
  const auto splits = [](const lower::GpuSchedule& schedule) { return schedule.split_k > 1; };
  const auto rows = [](const lower::GpuSchedule& schedule) { return schedule.sync == lower::GpuSync::rows; };
  CudaBundleInput input;
  input.name = "enc";
  input.fusetune_version = "0";
  input.problem = small_problem(dtype);
  input.mask = plan::FusionMask{0};
  input.architecture = "sm_90a";
  input.compiler = "nvrtc 13.0";
  input.environment = {{"device", "a GPU"}};
  input.norm_bound = 1e-5;
  input.worst_bound = 2e-5;
  input.kernels = {kernel(input.problem, {{0, 0}, false}, splits),
                   kernel(input.problem, {{1, 6}, true}, rows), kernel(input.problem, {{7, 14}, false}, rows),
                   kernel(input.problem, {{10, 12}, false}, splits)};
  input.schedule_origins = {"default", "default", "default", "default"};
  return input;
}

void write(const fs::path& directory, const Files& files) {
  for (const auto& [path, content] : files) {
    fs::create_directories((directory / path).parent_path());
    base::write_file_atomic(directory / path, content);
  }
}

base::ProcessResult run(const std::vector<std::string>& command) {
  return base::run_process(command, {.timeout_seconds = 200, .memory_limit_bytes = 0, .input = {}});
}

TEST(CudaBundle, HasEveryFileAndIsTheSameTwice) {
  const Files files = bundle_sources(bundle(block::Dtype::f16));
  for (const char* path :
       {"README.md", "CMakeLists.txt", "include/enc.h", "src/block.c", "src/driver.c", "src/shape.c",
        "src/abi.h", "src/mask_data.h", "src/cubins.S", "verify/verify.cpp", "verify/data.h",
        "verify/expected.bin", "pytorch/enc_torch.py", "pytorch/enc_torch.cpp", "pytorch/device.h",
        "kernels/segment_0_0.cu", "kernels/segment_1_6_hand_written.cu", "cubin/segment_7_14.cubin"})
    EXPECT_TRUE(files.contains(path)) << path;
  EXPECT_EQ(files.at("verify/expected.bin").size(), std::size_t{2 * 33 * 80 * 4});
  EXPECT_EQ(files, bundle_sources(bundle(block::Dtype::f16)));
}

TEST(CudaBundle, ManifestHasTheEmulatorsVerdict) {
  CudaBundleInput input = bundle(block::Dtype::bf16);
  const auto manifest = [&input] { return nlohmann::json::parse(manifest_text(input, {{"a", "abc"}})); };
  EXPECT_EQ(manifest()["target"], "cuda");
  EXPECT_EQ(manifest()["architecture"], "sm_90a");
  EXPECT_EQ(manifest()["emulator"]["verdict"], "left out");
  EXPECT_THAT(std::string(manifest()["library"]["products"]), HasSubstr("none"));
  EXPECT_EQ(manifest()["library"]["faster_when_timed"].size(), 0u);
  input.replaced = {"[7]"};
  EXPECT_EQ(manifest()["library"]["faster_when_timed"], nlohmann::json{"[7]"});
  EXPECT_TRUE(manifest()["kernels"][2]["cooperative"]);
  input.emulated = EmulatorVerdict{.batch = 1, .kernels = {{0.25, 0.5}}, .plan = {0.125, 1}};
  EXPECT_EQ(manifest()["emulator"]["verdict"], "nothing found");
  EXPECT_EQ(manifest()["emulator"]["kernels"][0]["worst_error"], 0.5);
  EXPECT_EQ(manifest()["sha256"].size(), 1u);
}

TEST(CudaBundle, AnyBatchRunsUnlessEntriesHaveMasksOfTheirOwn) {
  CudaBundleInput input = bundle(block::Dtype::f16);
  EXPECT_THAT(bundle_sources(input).at("include/enc.h"), HasSubstr("#define ENC_MAX_BATCH 16268815 "));
  input.problem.mask = block::MaskSpec::parse("causal:padding_lengths=33/20");
  EXPECT_THAT(bundle_sources(input).at("include/enc.h"), HasSubstr("#define ENC_MAX_BATCH 2 "));
}

/// The launcher's own computation, in C, of what the generator says of its kernels.
TEST(CudaBundle, LaunchesAreTheGenerators) {
  const CudaBundleInput input = bundle(block::Dtype::f16);
  ASSERT_GT(input.kernels[0].source.schedule.split_k, 1);
  ASSERT_EQ(input.kernels[2].source.schedule.sync, lower::GpuSync::rows);
  const base::TemporaryDirectory directory;
  const fs::path& at = directory.path();
  write(at, bundle_sources(input));
  base::write_file_atomic(at / "main.c", R"(#include <stdio.h>
#include "internal.h"
int main(void) {
  for (int k = 0; k < ENC_KERNELS; ++k)
    for (int batch = 1; batch < 6; ++batch)
      for (int resident = 0; resident < 5; resident += 2) {
        const struct enc_shape s = enc_shape_of(&enc_kernels[k], batch, resident);
        printf("%lld %lld %lld\n", (long long)s.blocks, (long long)s.scratch_bytes, (long long)s.sync_words);
      }
  return 0;
}
)");
  const std::string program = (at / "shapes").string();
  const base::ProcessResult built =
      run({"/bin/sh", "-c",
           "cd '" + at.string() +
               "' && cc=$(command -v cc || command -v gcc || command -v clang) && $cc -std=c11 "
               "-Wall -Wextra -Werror -Iinclude -Isrc -Icubin src/shape.c src/cubins.S main.c -o shapes"});
  ASSERT_EQ(built.exit_code, 0) << built.output;
  std::istringstream got(run({program}).output);
  for (const CudaKernel& each : input.kernels)
    for (int batch = 1; batch < 6; ++batch)
      for (int resident = 0; resident < 5; resident += 2) {
        const codegen::GpuLaunch want = each.source.launch(batch, resident);
        std::int64_t blocks = -1, scratch = -1, words = -1;
        got >> blocks >> scratch >> words;
        EXPECT_EQ(blocks, want.blocks) << each.source.symbol << " " << batch << " " << resident;
        EXPECT_EQ(scratch, want.scratch_bytes) << each.source.symbol << " " << batch << " " << resident;
        EXPECT_EQ(words, want.sync_words) << each.source.symbol << " " << batch << " " << resident;
      }
}

/// The numbers of an array in C.
std::vector<std::uint64_t> numbers(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find(" " + name + "[] = {");
  EXPECT_NE(begin, std::string::npos) << name;
  const std::size_t open = text.find('{', begin);
  std::istringstream words(text.substr(open + 1, text.find('}', open) - open - 1));
  std::vector<std::uint64_t> values;
  for (std::string word; words >> word;)
    values.push_back(static_cast<std::uint64_t>(word[0] == '-' ? std::stoll(word) : 0) +
                     (word[0] == '-' ? 0 : std::stoull(word, nullptr, 0)));
  return values;
}

TEST(CudaBundle, MaskIsTheTilesThatKernelsRead) {
  const block::Mask mask(block::MaskSpec::parse("longformer:global=4,window=2,padding_lengths=130/20"), 2,
                         130);
  const std::string text = mask_tiles_text(mask);
  const block::MaskTiles tiles = block::MaskTiles::build(mask, 64);
  const auto same = [&text](const std::string& name, const auto& want) {
    const std::vector<std::uint64_t> got = numbers(text, name);
    ASSERT_EQ(got.size(), want.size()) << name;
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], static_cast<std::uint64_t>(want[i])) << name << " " << i;
  };
  same("mask_row_begin", tiles.row_begin);
  same("mask_column", tiles.column);
  same("mask_bitmap", tiles.bitmap);
  same("mask_bits", tiles.bits);
  same("mask_length", std::vector<int>{130, 20});
  EXPECT_EQ(numbers(text, "mask_key_used").size(), 260u);
  EXPECT_THAT(text, HasSubstr("mask_entries = 2, mask_has_padding = 1"));
}

/// nvcc where it is usually found; empty: nowhere.
std::string nvcc() {
  const base::ProcessResult found =
      run({"/bin/sh", "-c", "PATH=\"$CUDA_HOME/bin:$PATH:/usr/local/cuda/bin\" command -v nvcc"});
  return found.exit_code == 0 ? found.output.substr(0, found.output.find('\n')) : "";
}

TEST(CudaBundle, EveryKernelCompilesWithNvccAlone) {
  const std::string compiler = nvcc();
  if (compiler.empty()) GTEST_SKIP() << "nvcc is neither in PATH nor under $CUDA_HOME or /usr/local/cuda";
  for (const block::Dtype dtype : {block::Dtype::f32, block::Dtype::bf16}) {
    const base::TemporaryDirectory directory;
    const Files files = bundle_sources(bundle(dtype));
    for (const auto& [path, content] : files) {
      if (!path.ends_with(".cu")) continue;
      EXPECT_THAT(content, Not(HasSubstr("#include"))) << path;
      base::write_file_atomic(directory.path() / "kernel.cu", content);
      const base::ProcessResult compiled =
          run({compiler, "-cubin", "-std=c++17", "-arch=sm_80", "-Werror", "all-warnings", "-o",
               (directory.path() / "kernel.cubin").string(), (directory.path() / "kernel.cu").string()});
      EXPECT_EQ(compiled.exit_code, 0) << path << "\n" << compiled.output;
    }
  }
}

/// Own declarations of the driver's functions against the toolkit's.
TEST(CudaBundle, DeclaresTheDriverAsItsHeaderDoes) {
  const base::TemporaryDirectory directory;
  write(directory.path(), bundle_sources(bundle(block::Dtype::f32)));
  const base::ProcessResult checked = run(
      {"/bin/sh", "-c",
       "for d in \"$CUDA_HOME\" /usr/local/cuda /usr; do [ -f \"$d/include/cuda.h\" ] && break; done; "
       "[ -f \"$d/include/cuda.h\" ] || exit 77; cc=$(command -v cc || command -v gcc || command -v clang); "
       "cd '" +
           directory.path().string() +
           "' && $cc -std=c11 -D_POSIX_C_SOURCE=200809L -DENC_CHECK_DECLARATIONS -I\"$d/include\" "
           "-fsyntax-only src/driver.c"});
  if (checked.exit_code == 77) GTEST_SKIP() << "no cuda.h under $CUDA_HOME, /usr/local/cuda or /usr";
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
}

}  // namespace
}  // namespace fusetune::exporting
