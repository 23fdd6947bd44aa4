#include "backend/cuda/cubin_compiler.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "installed_nvrtc.h"

/// Between threads inside of NVRTC, of whose locks ThreadSanitizer sees a part only.
extern "C" const char*
__tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier): its name for it
  return "race:libnvrtc.so\n";
}

namespace fusetune::backend::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Status = CubinResult::Status;

class CubinCompilerTest : public CompilingTest {
 protected:
  CubinOptions cached() const {
    CubinOptions options;
    options.cache_directory = directory_.path();
    return options;
  }
  CubinResult compile(const CubinSource& source, const CubinOptions& options) {
    return CubinCompiler(*nvrtc, options).compile({&source, 1}).front();
  }
  fs::path only_entry() const {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(directory_.path() / "cubins")) {
      EXPECT_TRUE(found.empty()) << "more than one entry";
      found = entry.path();
    }
    return found;
  }
  base::TemporaryDirectory directory_;
};

TEST_F(CubinCompilerTest, CompilesForEveryArchitecture) {
  std::vector<CubinSource> sources;
  for (const Architecture& architecture : supported_architectures(nvrtc->architectures()))
    sources.push_back(platform_probe(architecture));
  ASSERT_GE(sources.size(), 4u);
  std::vector<int> done;
  const auto results = CubinCompiler(*nvrtc, CubinOptions()).compile(sources, [&](int ready, int total) {
    done.push_back(ready);
    EXPECT_EQ(total, static_cast<int>(sources.size()));
  });
  ASSERT_EQ(results.size(), sources.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const CubinResult& result = results[i];
    ASSERT_EQ(result.status, Status::ok) << result.log;
    EXPECT_TRUE(
        result.cubin.starts_with("\x7f"
                                 "ELF"));
    EXPECT_GT(result.resources.registers, 10) << sources[i].architecture.name();
    EXPECT_EQ(result.resources.barriers, 1);
    EXPECT_EQ(result.resources.spill_load_bytes, 0);
    EXPECT_GT(result.compile_seconds, 0);
    EXPECT_THAT(result.log, HasSubstr("'" + sources[i].architecture.name() + "'"));
  }
  EXPECT_EQ(done.front(), 0);
  EXPECT_EQ(done.back(), static_cast<int>(sources.size()));
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

TEST_F(CubinCompilerTest, SpillsAndSharedMemoryAreRead) {
  const CubinResult result = compile(spilling_kernel(), CubinOptions());
  ASSERT_EQ(result.status, Status::ok) << result.log;
  EXPECT_GT(result.resources.spill_store_bytes, 0);
  EXPECT_GT(result.resources.spill_load_bytes, 0);
  EXPECT_GT(result.resources.stack_frame_bytes, 0);
  EXPECT_EQ(result.resources.static_shared_bytes, 1024);
  EXPECT_LE(result.resources.registers, 64);
}

TEST_F(CubinCompilerTest, ACompileErrorGivesTheWholeLogAndTheSource) {
  CubinSource source = unit(
      "broken", "\nFT_KERNEL(broken, 32) {\n  first_mistake();\n  int x = second_mistake;\n}\n", {90, true});
  const CubinResult result = compile(source, cached());
  EXPECT_EQ(result.status, Status::failed);
  EXPECT_TRUE(result.cubin.empty());
  EXPECT_THAT(result.log, HasSubstr("the test's broken"));
  EXPECT_THAT(result.log, HasSubstr("sm_90a"));
  EXPECT_THAT(result.log, HasSubstr("NVRTC_ERROR_COMPILATION"));
  EXPECT_THAT(result.log, HasSubstr("\"first_mistake\" is undefined"));
  EXPECT_THAT(result.log, HasSubstr("\"second_mistake\" is undefined"));
  EXPECT_THAT(result.log, HasSubstr("nvcc -cubin"));
  const fs::path saved = directory_.path() / "failed" / "broken.cu";
  EXPECT_THAT(result.log, HasSubstr(saved.string()));
  EXPECT_EQ(base::read_file(saved), source.text);
  EXPECT_FALSE(fs::exists(directory_.path() / "cubins"));
}

TEST_F(CubinCompilerTest, TheAssemblersErrorsAreInTheLogToo) {
  const CubinResult result =
      compile(unit("assembly", "\nFT_KERNEL(assembly, 32) { asm volatile(\"no.such.instruction;\"); }\n"),
              CubinOptions());
  EXPECT_EQ(result.status, Status::failed);
  EXPECT_THAT(result.log, HasSubstr("Not a name of any known instruction: 'no'"));
  EXPECT_EQ(result.log.find('\0'), std::string::npos);
}

TEST_F(CubinCompilerTest, AnImageWithoutTheKernelHasFailed) {
  CubinSource source = platform_probe();
  source.symbol = "another";
  const CubinResult result = compile(source, cached());
  EXPECT_EQ(result.status, Status::failed);
  EXPECT_THAT(result.log, HasSubstr("has no kernel 'another'"));
}

TEST_F(CubinCompilerTest, OneBadSourceCostsItselfOnly) {
  const std::vector<CubinSource> sources = {
      platform_probe(), unit("bad", "\nFT_KERNEL(bad, 32) { mistake; }\n"), spilling_kernel()};
  const auto results = CubinCompiler(*nvrtc, CubinOptions()).compile(sources);
  EXPECT_EQ(results[0].status, Status::ok) << results[0].log;
  EXPECT_EQ(results[1].status, Status::failed);
  EXPECT_EQ(results[2].status, Status::ok) << results[2].log;
}

TEST_F(CubinCompilerTest, TheCacheGivesTheSameWithoutACompile) {
  const CubinResult first = compile(spilling_kernel(), cached());
  ASSERT_EQ(first.status, Status::ok) << first.log;
  EXPECT_GT(first.compile_seconds, 0);
  const CubinResult second = compile(spilling_kernel(), cached());
  EXPECT_EQ(second.status, Status::ok);
  EXPECT_EQ(second.compile_seconds, 0);
  EXPECT_EQ(second.resources, first.resources);
  EXPECT_EQ(second.log, first.log);
  EXPECT_EQ(second.cubin, first.cubin);
}

TEST_F(CubinCompilerTest, TheKeyCoversTextOptionsAndArchitecture) {
  const auto compiled = [&](const CubinSource& source, const CubinOptions& options) {
    const CubinResult result = compile(source, options);
    EXPECT_EQ(result.status, Status::ok) << result.log;
    return result.compile_seconds > 0;
  };
  EXPECT_TRUE(compiled(platform_probe(), cached()));
  EXPECT_FALSE(compiled(platform_probe(), cached()));
  EXPECT_TRUE(compiled(platform_probe({86, false}), cached()));
  CubinSource changed = platform_probe();
  changed.text += "\n// a comment\n";
  EXPECT_TRUE(compiled(changed, cached()));
  CubinOptions with_lines = cached();
  with_lines.line_info = true;
  EXPECT_TRUE(compiled(platform_probe(), with_lines));
}

TEST_F(CubinCompilerTest, ADamagedEntryIsCompiledAgain) {
  const CubinResult first = compile(platform_probe(), cached());
  const fs::path entry = only_entry();
  const std::string whole = base::read_file(entry);
  for (const std::string& damaged :
       {std::string(), whole.substr(0, whole.size() - 1), whole.substr(0, 100), "x" + whole}) {
    base::write_file_atomic(entry, damaged);
    const CubinResult again = compile(platform_probe(), cached());
    EXPECT_GT(again.compile_seconds, 0);
    EXPECT_EQ(again.resources, first.resources);
    EXPECT_EQ(base::read_file(entry).substr(0, 17), whole.substr(0, 17));
  }
  EXPECT_EQ(compile(platform_probe(), cached()).compile_seconds, 0);
}

TEST_F(CubinCompilerTest, WithoutNvrtcWhatIsInTheCacheIsFoundAndTheRestIsRefused) {
  const CubinSource known = platform_probe(), other = unit("other", "FT_KERNEL(other, 32) {}");
  const CubinResult made = compile(known, cached());
  ASSERT_EQ(made.status, Status::ok) << made.log;

  const ScopedVariable none("FUSETUNE_NVRTC", "/no/such/libnvrtc.so");
  const CudaCompiler found = open_compiler(directory_.path());
  EXPECT_FALSE(found.nvrtc);
  EXPECT_THAT(found.missing, HasSubstr("/no/such/libnvrtc.so"));
  EXPECT_EQ(found.release.identity, nvrtc->identity());
  EXPECT_EQ(found.release.version(), nvrtc->version());
  EXPECT_EQ(found.release.architectures, nvrtc->architectures());

  CubinCompiler compiler(found, cached());
  const std::vector<CubinSource> sources = {other, known, other};
  EXPECT_EQ(compiler.count_missing(sources), 1u);
  const auto results = compiler.compile(sources);
  EXPECT_EQ(results[1].status, Status::ok) << results[1].log;
  EXPECT_EQ(results[1].cubin, made.cubin);
  EXPECT_EQ(results[1].log, made.log);
  EXPECT_EQ(results[1].compile_seconds, 0);
  for (const int refused : {0, 2}) {
    EXPECT_EQ(results[refused].status, Status::unavailable);
    EXPECT_THAT(results[refused].log,
                AllOf(HasSubstr("the test's other"), HasSubstr("/no/such/libnvrtc.so"),
                      HasSubstr(directory_.path().string()), HasSubstr("FUSETUNE_NVRTC")));
  }
  EXPECT_EQ(compile(other, cached()).status, Status::ok);  // the refusal was kept nowhere
}

TEST_F(CubinCompilerTest, EqualSourcesAreCompiledOnce) {
  const std::vector<CubinSource> sources(5, platform_probe());
  const auto results = CubinCompiler(*nvrtc, CubinOptions()).compile(sources);
  EXPECT_GT(results[0].compile_seconds, 0);
  for (std::size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[i].compile_seconds, 0);
    EXPECT_EQ(results[i].cubin, results[0].cubin);
  }
}

std::vector<CubinSource> several() {
  std::vector<CubinSource> sources;
  for (int i = 0; i < 8; ++i) {
    CubinSource source = platform_probe();
    source.text += "\n__device__ int number" + std::to_string(i) + ";\n";
    sources.push_back(source);
  }
  return sources;
}

TEST_F(CubinCompilerTest, ThreadsMayCompileAtOnceAndShareACache) {
  const std::vector<CubinSource> sources = several();
  CubinOptions options = cached();
  options.jobs = 3;
  CubinCompiler shared(*nvrtc, options);
  std::vector<CubinResult> results[4];
  std::vector<std::thread> threads;
  for (auto& mine : results) threads.emplace_back([&] { mine = shared.compile(sources); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : results) {
    ASSERT_EQ(mine.size(), sources.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      ASSERT_EQ(mine[i].status, Status::ok) << mine[i].log;
      EXPECT_EQ(mine[i].resources, results[0][i].resources);
    }
  }
}

TEST_F(CubinCompilerTest, ProcessesMayShareACache) {
  const std::vector<CubinSource> sources = several();
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool ok = true;
      for (const CubinResult& result : CubinCompiler(*nvrtc, cached()).compile(sources))
        ok = ok && result.status == Status::ok;
      _exit(ok ? 0 : 1);
    }
    ASSERT_GT(child, 0);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const CubinResult& result : CubinCompiler(*nvrtc, cached()).compile(sources))
    EXPECT_EQ(result.compile_seconds, 0);
  int entries = 0;  // no temporary file is left
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory_.path() / "cubins")) ++entries;
  EXPECT_EQ(entries, static_cast<int>(sources.size()));
}

TEST_F(CubinCompilerTest, ACompileThatTakesTooLongIsCancelled) {
  if (nvrtc->functions().set_flow_callback == nullptr) GTEST_SKIP() << "this NVRTC cannot cancel a compile";
  CubinOptions options;
  options.timeout_seconds = 1e-6;
  const CubinResult result = compile(platform_probe(), options);
  EXPECT_EQ(result.status, Status::timeout);
  EXPECT_THAT(result.log, HasSubstr("--compile-timeout"));
}

TEST_F(CubinCompilerTest, AnArchitectureThatIsNotListedIsRefused) {
  const CubinSource source = platform_probe({999, false});
  EXPECT_THROW(CubinCompiler(*nvrtc, CubinOptions()).compile({&source, 1}), base::UsageError);
}

TEST_F(CubinCompilerTest, ProgressMayStopIt) {
  const std::vector<CubinSource> sources = several();
  struct Stop {};
  EXPECT_THROW(CubinCompiler(*nvrtc, CubinOptions())
                   .compile(sources,
                            [](int ready, int) {
                              if (ready > 0) throw Stop();
                            }),
               Stop);
}

}  // namespace
}  // namespace fusetune::backend::cuda
