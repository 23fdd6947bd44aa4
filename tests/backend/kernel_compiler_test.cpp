#include "backend/cpu/kernel_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <set>

#include "backend/cpu/loaded_kernel.h"
#include "backend/test_kernels.h"
#include "base/error.h"
#include "base/file.h"
#include "plan/fusion_plan.h"

namespace fusetune::backend::cpu {
namespace {

namespace fs = std::filesystem;
using codegen::KernelSource;
using testing::cached_in;
using testing::compile_one;
using testing::constant_kernel;
using testing::count_files;
using testing::make_kernel;
using testing::system_compiler;
using testing::write_script;
using Status = CompileResult::Status;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr lower::Isa kIsa = lower::Isa::generic;

/// What the kernel writes to the first float of tensor 0.
float run(const CompiledKernel& compiled) {
  const LoadedKernel kernel(compiled);
  alignas(64) float out[16] = {};
  ft_args args = {};
  args.tensor[0] = out;
  ft_barrier barrier = {};
  kernel.function()(&args, 0, 1, &barrier);
  return out[0];
}

std::vector<KernelSource> constants(int count) {
  std::vector<KernelSource> kernels;
  for (int i = 0; i < count; ++i) {
    kernels.push_back(constant_kernel("ft_constant_" + std::to_string(i), std::to_string(i) + ".5f"));
  }
  return kernels;
}

TEST(KernelCompiler, CompilesUnitsAndReportsProgress) {
  CompileOptions options;
  options.kernels_per_unit = 3;
  options.jobs = 2;
  KernelCompiler compiler(system_compiler(), kIsa, options);
  const auto kernels = constants(10);
  std::vector<int> progress;
  const auto results = compiler.compile(kernels, [&](int done, int total) {
    EXPECT_EQ(total, 10);
    progress.push_back(done);
  });
  ASSERT_EQ(results.size(), 10u);
  std::set<fs::path> libraries;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(results[i].status, Status::ok) << results[i].log;
    EXPECT_EQ(results[i].log, "");
    EXPECT_EQ(results[i].kernel.symbol, kernels[i].symbol);
    EXPECT_GT(results[i].kernel.compile_seconds, 0);
    EXPECT_EQ(run(results[i].kernel), static_cast<float>(i) + 0.5f);
    libraries.insert(results[i].kernel.library);
  }
  EXPECT_EQ(libraries.size(), 4u);  // 3 + 3 + 3 + 1
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), 10);
}

/// Kernels for an instruction set that this CPU may lack cannot be run here, but they must compile.
TEST(KernelCompiler, KernelsOfEveryInstructionSetCompile) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "AVX2 and AVX-512 are x86-64's";
#endif
  block::Problem problem;
  problem.seq = 65;
  problem.heads = 2;
  problem.head_size = 40;
  problem.ffn = 192;
  for (const lower::Isa isa : {lower::Isa::avx2, lower::Isa::avx512}) {
    const lower::CpuTarget target{.isa = isa, .threads = 2};
    std::vector<KernelSource> kernels;
    for (std::size_t i = 0; i < plan::all_variants().size(); i += 8) {
      const plan::SegmentVariant& variant = plan::all_variants()[i];
      kernels.push_back(
          codegen::generate_cpu(variant, lower::default_schedule(variant, problem, target), problem, target));
    }
    KernelCompiler compiler(system_compiler(), isa, {});
    for (const CompileResult& result : compiler.compile(kernels)) {
      EXPECT_EQ(result.status, Status::ok) << lower::name(isa) << " " << result.log;
    }
  }
}

TEST(KernelCompiler, AFewKernelsAreSpreadOverTheJobs) {
  CompileOptions options;
  options.kernels_per_unit = 8;
  options.jobs = 2;
  KernelCompiler compiler(system_compiler(), kIsa, options);
  const auto results = compiler.compile(constants(2));
  EXPECT_NE(results[0].kernel.library, results[1].kernel.library);
}

TEST(KernelCompiler, NothingToDoIsDone) {
  KernelCompiler compiler(system_compiler(), kIsa, {});
  EXPECT_TRUE(compiler.compile({}).empty());
}

TEST(KernelCompiler, EqualKernelsAreCompiledOnce) {
  CompileOptions options;
  options.kernels_per_unit = 8;
  KernelCompiler compiler(system_compiler(), kIsa, options);
  const std::vector<KernelSource> kernels(3, constant_kernel("ft_same", "7.0f"));
  for (const CompileResult& result : compiler.compile(kernels)) {
    ASSERT_EQ(result.status, Status::ok) << result.log;
    EXPECT_EQ(run(result.kernel), 7.0f);
  }
}

TEST(KernelCompiler, OneBadKernelCostsItselfOnly) {
  const base::TemporaryDirectory cache;
  CompileOptions options = cached_in(cache.path());
  options.kernels_per_unit = 8;
  options.jobs = 1;
  KernelCompiler compiler(system_compiler(), kIsa, options);
  auto kernels = constants(7);
  kernels[3] = make_kernel("ft_bad", "this_is_undeclared = 1;");
  std::vector<int> progress;
  const auto results = compiler.compile(kernels, [&](int done, int) { progress.push_back(done); });
  for (int i = 0; i < 7; ++i) {
    if (i == 3) continue;
    ASSERT_EQ(results[i].status, Status::ok) << results[i].log;
    EXPECT_EQ(run(results[i].kernel), static_cast<float>(i) + 0.5f);
  }
  EXPECT_EQ(results[3].status, Status::failed);
  EXPECT_EQ(progress.back(), 7);
  const fs::path saved = cache.path() / "failed" / "ft_bad.cpp";
  EXPECT_THAT(results[3].log,
              AllOf(HasSubstr("ft_bad"), HasSubstr("failed with exit code 1"),
                    HasSubstr("this_is_undeclared"), HasSubstr("source saved in " + saved.string()),
                    HasSubstr("repeat with: " + system_compiler().path)));
  EXPECT_THAT(results[3].log,
              HasSubstr(saved.string() + ":"));  // diagnostics name the file that still exists
  EXPECT_THAT(base::read_file(saved), HasSubstr("this_is_undeclared = 1;"));
}

TEST(KernelCompiler, TwoKernelsOfOneNameDoNotMeetInOneUnit) {
  CompileOptions options;
  options.jobs = 1;
  KernelCompiler compiler(system_compiler(), kIsa, options);
  const std::vector<KernelSource> kernels = {constant_kernel("ft_twin", "1.0f"),
                                             constant_kernel("ft_twin", "2.0f")};
  const auto results = compiler.compile(kernels);
  ASSERT_EQ(results[0].status, Status::ok) << results[0].log;
  ASSERT_EQ(results[1].status, Status::ok) << results[1].log;
  EXPECT_EQ(run(results[0].kernel), 1.0f);
  EXPECT_EQ(run(results[1].kernel), 2.0f);
}

TEST(KernelCompiler, ACallIntoTheCompilersSupportLibraryLinks) {
  KernelCompiler compiler(system_compiler(), kIsa, {});
  // 128-bit division is a function of libgcc; zeroing is libc's memset.
  const auto kernel = make_kernel("ft_support", R"(
    float* out = (float*)args->tensor[0];
    volatile unsigned __int128 big = (unsigned __int128)1 << 100;
    __builtin_memset(out, 0, 64);
    out[0] = (float)(unsigned)(big / ((unsigned __int128)1 << 97));)");
  EXPECT_EQ(run(compile_one(compiler, kernel)), 8.0f);
}

/// A stand-in compiler: answers questions like the system's, and for kernels with "SLOW" never ends.
std::string slow_compiler(const fs::path& directory) {
  return write_script(directory / "slow-c++",
                      "for word; do case $word in *.cpp) grep -q SLOW \"$word\" && sleep 100;; "
                      "esac; done\nexec " +
                          system_compiler().path + " \"$@\"\n");
}

TEST(KernelCompiler, ACompileThatNeverEndsIsATimeoutOfItsKernelOnly) {
  const base::TemporaryDirectory directory;
  CompileOptions options;
  options.timeout_seconds = 6;
  options.jobs = 1;
  KernelCompiler compiler(find_compiler(slow_compiler(directory.path())), kIsa, options);
  auto kernels = constants(3);
  kernels[1] = make_kernel("ft_slow", "// SLOW");
  const auto results = compiler.compile(kernels);
  EXPECT_EQ(results[0].status, Status::ok) << results[0].log;
  EXPECT_EQ(results[1].status, Status::timeout);
  EXPECT_THAT(results[1].log, AllOf(HasSubstr("did not end within 6 s"), HasSubstr("--compile-timeout")));
  EXPECT_EQ(results[2].status, Status::ok) << results[2].log;
}

TEST(KernelCompiler, TooMuchMemoryIsAResourceLimit) {
  CompileOptions options;
  options.memory_limit_bytes = std::int64_t{192} << 20;
  options.jobs = 1;
  KernelCompiler compiler(system_compiler(), kIsa, options);
  std::string body = "#define A(x) x x x x x x x x x x x x x x x x\n#define B(x) A(A(A(A(A(x)))))\n";
  body += "B(((volatile float*)args->tensor[0])[0] += 1.0f;)\n";
  const auto kernel = make_kernel("ft_greedy", body);
  const auto results = compiler.compile({&kernel, 1});
  EXPECT_EQ(results[0].status, Status::resource_limit) << results[0].log.substr(0, 2000);
}

TEST(KernelCompiler, ACompilerThatVanishedIsAnError) {
  const base::TemporaryDirectory directory;
  const std::string path =
      write_script(directory.path() / "c++", "exec " + system_compiler().path + " \"$@\"\n");
  KernelCompiler compiler(find_compiler(path), kIsa, {});
  fs::remove(path);
  EXPECT_THROW(compiler.compile(constants(20)), base::EnvironmentError);
}

TEST(KernelCompiler, ProgressMayEndTheWork) {
  struct Interrupted {};
  CompileOptions options;
  options.kernels_per_unit = 1;
  options.jobs = 2;
  KernelCompiler compiler(system_compiler(), kIsa, options);
  EXPECT_THROW(compiler.compile(constants(50),
                                [](int done, int) {
                                  if (done > 1) throw Interrupted();
                                }),
               Interrupted);
}

/// A user's interrupt must not wait for a compiler that hangs, nor for one of a unit that it was to retry.
TEST(KernelCompiler, PollEndsCompilersThatHang) {
  struct Interrupted {};
  const base::TemporaryDirectory directory, cache;
  CompileOptions options = cached_in(cache.path());
  options.jobs = 1;
  int polls = 0;
  options.poll = [&] {
    if (++polls > 2) throw Interrupted();  // the first comes before anything is compiled
  };
  KernelCompiler compiler(find_compiler(slow_compiler(directory.path())), kIsa, options);
  auto kernels = constants(2);
  kernels[0] = make_kernel("ft_slow", "// SLOW");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(compiler.compile(kernels), Interrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << "it sleeps for 100";
  EXPECT_FALSE(fs::exists(cache.path() / "failed")) << "a killed compiler says nothing against its kernel";
}

// ---- Cache
// ---------------------------------------------------------------------------------------------------

TEST(KernelCache, ASecondCompilerFindsWhatTheFirstMade) {
  const base::TemporaryDirectory cache;
  const auto kernels = constants(5);
  const auto first = KernelCompiler(system_compiler(), kIsa, cached_in(cache.path())).compile(kernels);
  const auto second = KernelCompiler(system_compiler(), kIsa, cached_in(cache.path())).compile(kernels);
  for (int i = 0; i < 5; ++i) {
    EXPECT_GT(first[i].kernel.compile_seconds, 0);
    EXPECT_EQ(second[i].kernel.compile_seconds, 0);
    EXPECT_EQ(second[i].kernel.library, first[i].kernel.library);
    EXPECT_EQ(run(second[i].kernel), static_cast<float>(i) + 0.5f);
  }
}

TEST(KernelCache, OtherFlagsAnotherCompilerOrAnotherTextIsAnotherKernel) {
  const base::TemporaryDirectory cache;
  const auto kernel = constant_kernel("ft_key", "1.0f");
  KernelCompiler base_line(system_compiler(), kIsa, cached_in(cache.path()));
  compile_one(base_line, kernel);
  EXPECT_EQ(count_files(cache.path() / "kernels"), 1u);

  Compiler newer = system_compiler();
  newer.version += ".1";
  KernelCompiler other_version(newer, kIsa, cached_in(cache.path()));
  EXPECT_GT(compile_one(other_version, kernel).compile_seconds, 0);
#if defined(__x86_64__)
  KernelCompiler other_flags(system_compiler(), lower::Isa::avx2, cached_in(cache.path()));
  EXPECT_GT(compile_one(other_flags, kernel).compile_seconds, 0);
  EXPECT_EQ(count_files(cache.path() / "kernels"), 3u);
#endif
  EXPECT_EQ(run(compile_one(base_line, constant_kernel("ft_key", "2.0f"))), 2.0f);
  EXPECT_EQ(compile_one(base_line, kernel).compile_seconds, 0);
}

class DamagedCache : public ::testing::TestWithParam<const char*> {};

TEST_P(DamagedCache, IsCompiledAgain) {
  const std::string how = GetParam();
  const base::TemporaryDirectory cache;
  const auto kernel = constant_kernel("ft_damaged", "3.0f");
  KernelCompiler compiler(system_compiler(), kIsa, cached_in(cache.path()));
  const fs::path library = compile_one(compiler, kernel).library;
  if (how == "truncated") fs::resize_file(library, fs::file_size(library) / 2);
  if (how == "empty") fs::resize_file(library, 0);
  if (how == "foreign") std::ofstream(library) << "not a library";
  if (how == "removed") fs::remove(library);
  if (how == "one byte") {
    std::fstream file(library, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(library) / 2));
    file.put('\x5a').put('\xa5');
  }
  if (how == "link to nothing") {
    const fs::path link = fs::directory_iterator(cache.path() / "kernels")->path();
    fs::remove(link);
    fs::create_symlink("../libraries/gone.so", link);
  }
  // The first compiler still knows the kernel, a new one does not: both must come out right.
  KernelCompiler another(system_compiler(), kIsa, cached_in(cache.path()));
  EXPECT_GT(compile_one(another, kernel).compile_seconds, 0);
  EXPECT_EQ(run(compile_one(another, kernel)), 3.0f);
  EXPECT_EQ(run(compile_one(compiler, kernel)), 3.0f);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedCache,
                         ::testing::Values("truncated", "empty", "foreign", "removed", "one byte",
                                           "link to nothing"));

TEST(KernelCache, APathWithSpacesAndOtherLettersWorks) {
  const base::TemporaryDirectory directory;
  const fs::path cache = directory.path() / "mein Übersetzer-Vorrat 'é' $HOME";
  KernelCompiler compiler(system_compiler(), kIsa, cached_in(cache));
  EXPECT_EQ(run(compile_one(compiler, constant_kernel("ft_path", "4.0f"))), 4.0f);
  KernelCompiler again(system_compiler(), kIsa, cached_in(cache));
  EXPECT_EQ(compile_one(again, constant_kernel("ft_path", "4.0f")).compile_seconds, 0);
}

TEST(KernelCache, AnUnusableDirectoryMeansUncachedAndIsSaidOnce) {
  const base::TemporaryDirectory directory;
  const fs::path file = directory.path() / "a-file";
  base::write_file_atomic(file, "x");
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    KernelCompiler compiler(system_compiler(), kIsa, cached_in(file / "cache"));
    EXPECT_EQ(run(compile_one(compiler, constant_kernel("ft_uncached", "5.0f"))), 5.0f);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  // Another test of this program may have been the first to say it.
  EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(KernelCache, UncachedLibrariesLiveAsLongAsTheirCompiler) {
  fs::path library;
  {
    KernelCompiler compiler(system_compiler(), kIsa, {});
    library = compile_one(compiler, constant_kernel("ft_temporary", "6.0f")).library;
    EXPECT_TRUE(fs::exists(library));
  }
  EXPECT_FALSE(fs::exists(library));
}

/// Runs `work` in a child process; true when it returned true there.
template <typename Work>
pid_t start_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = work();
    } catch (const std::exception& error) {
      fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(good ? 0 : 1);
  }
  return child;
}

bool succeeded(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(KernelCache, AReadOnlyDirectoryIsReadAndNotWritten) {
  const base::TemporaryDirectory directory;
  const fs::path cache = directory.path() / "cache";
  const auto known = constant_kernel("ft_known", "8.0f");
  KernelCompiler writer(system_compiler(), kIsa, cached_in(cache));
  compile_one(writer, known);
  fs::permissions(directory.path(), fs::perms(0755));
  fs::permissions(cache / "libraries", fs::perms(0555));
  fs::permissions(cache / "kernels", fs::perms(0555));

  const bool good = succeeded(start_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
      return false;  // root may write anywhere
    KernelCompiler reader(system_compiler(), kIsa, cached_in(cache));
    const CompiledKernel cached = compile_one(reader, known);
    const CompiledKernel fresh = compile_one(reader, constant_kernel("ft_fresh", "9.0f"));
    return cached.compile_seconds == 0 && run(cached) == 8.0f && run(fresh) == 9.0f &&
           compile_one(reader, constant_kernel("ft_fresh", "9.0f")).compile_seconds == 0;
  }));
  fs::permissions(cache / "libraries", fs::perms(0755));
  fs::permissions(cache / "kernels", fs::perms(0755));
  EXPECT_TRUE(good);
  EXPECT_EQ(count_files(cache / "kernels"), 1u);
}

TEST(KernelCache, TwoProcessesMayCompileTheSameAtOnce) {
  const base::TemporaryDirectory cache;
  const auto kernels = constants(6);
  const auto work = [&] {
    CompileOptions options = cached_in(cache.path());
    options.jobs = 1;
    options.kernels_per_unit = 2;
    KernelCompiler compiler(system_compiler(), kIsa, options);
    const auto results = compiler.compile(kernels);
    for (int i = 0; i < 6; ++i) {
      if (results[i].status != Status::ok || run(results[i].kernel) != static_cast<float>(i) + 0.5f)
        return false;
    }
    return true;
  };
  const pid_t first = start_child(work), second = start_child(work);
  EXPECT_TRUE(succeeded(first));
  EXPECT_TRUE(succeeded(second));
  EXPECT_EQ(count_files(cache.path() / "kernels"), 6u);  // and no temporary files
}

}  // namespace
}  // namespace fusetune::backend::cpu
