// Compiling and loading kernels, what findings call their source, and the limits of launches.
#include "backend/simt/library_compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <vector>

#include "backend/simt/hooks.h"
#include "backend/simt/simt_backend.h"
#include "backend/simt/test_support.h"

namespace fusetune::backend::simt {
namespace {

using ::testing::AllOf;
using testing::compile;
using ::testing::HasSubstr;
using testing::message_of;
using testing::unit_of;

/// Writes `value` to the first number of tensor[0].
std::string constant_kernel(const std::string& symbol, const std::string& value) {
  return "FT_KERNEL(" + symbol +
         ", 32) { if (thread_index() == 0) static_cast<float*>(args.tensor[0])[0] = " + value + "; }\n";
}

class LibraryTest : public ::testing::Test {
 protected:
  void SetUp() override { FT_SKIP_WITHOUT_EMULATOR(); }

  LibraryCompiler make_compiler(Mode mode, const LibraryOptions& options = {}) {
    return LibraryCompiler(cpu::find_compiler(""), mode, options);
  }
  std::string run(const Kernel& kernel, const LaunchOptions& options = {}) {
    memory_.clear();
    args_.tensor[0] = memory_.allocate(64, "out", Access::uninitialised);
    return message_of(launch(kernel, args_, memory_, options));
  }
  float result() const { return *static_cast<const float*>(args_.tensor[0]); }

  DeviceMemory memory_;
  ft_gpu_args args_ = {};
};

TEST_F(LibraryTest, CompilesUnitsInParallelAndKeepsTheirOrder) {
  LibraryOptions options;
  options.jobs = 3;
  LibraryCompiler compiler = make_compiler(Mode::fast, options);
  std::vector<std::string> units;
  for (int i = 0; i < 5; ++i) units.push_back(unit_of(constant_kernel("same_name", std::to_string(i))));
  int last_done = 0;
  const auto results = compiler.compile(units, [&](int done, int total) {
    EXPECT_GT(done, last_done);
    EXPECT_EQ(total, 5);
    last_done = done;
  });
  EXPECT_EQ(last_done, 5);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(results[static_cast<std::size_t>(i)].library);
    EXPECT_EQ(run(results[static_cast<std::size_t>(i)].library->kernel("same_name")), "no finding");
    EXPECT_EQ(result(), static_cast<float>(i));
  }
}

TEST_F(LibraryTest, AUnitThatDoesNotCompileCostsItselfOnly) {
  LibraryCompiler compiler = make_compiler(Mode::fast);
  const std::vector<std::string> units = {unit_of("FT_KERNEL(broken, 32) { no_such_thing(); }\n"),
                                          unit_of(constant_kernel("good", "4"))};
  const auto results = compiler.compile(units);
  EXPECT_FALSE(results[0].library);
  EXPECT_THAT(results[0].log, AllOf(HasSubstr("no_such_thing"), HasSubstr("test.cu:1"),
                                    HasSubstr("source saved in"), HasSubstr("repeat with: ")));
  ASSERT_TRUE(results[1].library);
  EXPECT_EQ(run(results[1].library->kernel("good")), "no finding");
}

TEST_F(LibraryTest, TakesLibrariesFromTheCache) {
  const base::TemporaryDirectory directory;
  LibraryOptions options;
  options.cache_directory = directory.path();
  const std::string unit = unit_of(constant_kernel("cached", "5"));
  EXPECT_GT(make_compiler(Mode::fast, options).compile(unit).seconds, 0);
  const LibraryResult again = make_compiler(Mode::fast, options).compile(unit);
  EXPECT_EQ(again.seconds, 0);
  EXPECT_EQ(run(again.library->kernel("cached")), "no finding");
  EXPECT_EQ(result(), 5.0f);
  EXPECT_GT(make_compiler(Mode::checked, options).compile(unit).seconds, 0) << "the mode is part of the key";
}

TEST_F(LibraryTest, ALibraryOutlivesItsCompiler) {
  for (const Mode mode : {Mode::fast, Mode::checked}) {
    const auto library =
        compile("FT_KERNEL(late, 32) { *static_cast<float*>(args.tensor[9]) = 1; }  // late\n", mode);
    EXPECT_THAT(run(library->kernel("late")), HasSubstr("test.cu:1"));
  }
}

TEST_F(LibraryTest, KnowsTheThreadsOfEachKernel) {
  const auto library = compile("FT_KERNEL(narrow, 32) {}\nFT_KERNEL(wide, 4 * 64) {}\n", Mode::fast);
  EXPECT_EQ(library->kernel("narrow").threads, 32);
  EXPECT_EQ(library->kernel("wide").threads, 256);
  EXPECT_THROW(library->kernel("none"), base::EnvironmentError);
}

TEST_F(LibraryTest, FindingsNameBuildingBlocksAndTheirCallers) {
  const std::string text = R"(#line 1 "cuda/block.h"
template <class T>
FT_INLINE void store(T* to, int i) {
  to[i] = 1;
}
#line 1 "kernel.cu"
FT_KERNEL(caller, 32) {
  float* out = static_cast<float*>(args.tensor[0]);
  store(out, thread_index() + 100);
}
)";
  EXPECT_THAT(run(compile(text, Mode::checked)->kernel("caller")),
              HasSubstr("at cuda/block.h:3, called at kernel.cu:3"));
}

/// Gives the library hooks that return at once, so that a kernel is often between its line and them.
void shorten_hooks(const KernelLibrary& library) {
  void* const handle = dlopen(library.path().c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(handle, nullptr) << dlerror();
  auto** const table = static_cast<const void**>(dlsym(handle, kHookTable));
  const void* const returns = dlsym(handle, kHooksBegin);
  ASSERT_TRUE(table != nullptr && library.in_hooks(returns));
  std::fill(table, table + hooks().size(), returns);
  dlclose(handle);
}

TEST_F(LibraryTest, ATimeoutInACallToTheEmulatorIsAtTheKernelsLine) {
  const auto library = compile("FT_KERNEL(endless, 32) {\n  for (;;) warp_sync();\n}\n", Mode::fast);
  shorten_hooks(*library);
  LaunchOptions options;
  options.timeout_seconds = 0.002;
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(run(library->kernel("endless"), options),
                AllOf(HasSubstr("timeout: still running"), HasSubstr("at test.cu:2")));
  }
}

TEST_F(LibraryTest, SharedConstantsMayBeReadAndNotWritten) {
  const std::string text = R"(
constexpr float table[4] = {1, 2, 3, 4};
float counter = 0;
FT_KERNEL(reads, 32) { static_cast<float*>(args.tensor[0])[thread_index() % 16] = table[thread_index() % 4]; }
FT_KERNEL(one_reads, 32) { if (thread_index() < 4) static_cast<float*>(args.tensor[0])[thread_index()] = table[thread_index()]; }
FT_KERNEL(counts, 32) { counter += 1; }
)";
  const auto library = compile(text, Mode::checked);
  EXPECT_EQ(run(library->kernel("one_reads")), "no finding");
  EXPECT_EQ(result(), 1.0f);
  EXPECT_THAT(run(library->kernel("reads")), HasSubstr("race: write"));  // lanes 0 and 16
  EXPECT_THAT(run(library->kernel("counts")), HasSubstr("write to the kernel's arguments or constants"));
}

TEST_F(LibraryTest, LaunchesThatNoGpuCouldRunAreRefused) {
  const Kernel kernel =
      compile(constant_kernel("small", "1") + "FT_KERNEL(odd, 33) {}\n", Mode::fast)->kernel("small");
  const auto refuses = [&](LaunchOptions options) { EXPECT_THROW(run(kernel, options), base::UsageError); };
  refuses({.blocks = 0});
  refuses({.blocks = kMaxBlocks + 1});
  refuses({.shared_bytes = kMaxSharedBytes + 1});
  refuses({.blocks = kMaxLiveThreads / 32 + 1, .cooperative = true});
  refuses({.timeout_seconds = 0});
}

TEST_F(LibraryTest, SignalHandlersAreOurOwnOnlyWhileALaunchRuns) {
  struct sigaction before = {}, after = {};
  sigaction(SIGSEGV, nullptr, &before);
  run(compile(constant_kernel("quiet", "1"), Mode::fast)->kernel("quiet"));
  sigaction(SIGSEGV, nullptr, &after);
  EXPECT_EQ(before.sa_sigaction, after.sa_sigaction);
  constexpr int ours = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // the C library adds flags of its own
  EXPECT_EQ(before.sa_flags & ours, after.sa_flags & ours);
}

TEST(DeviceMemoryTest, GuardsBuffersAndPoisonsThem) {
  DeviceMemory memory;
  auto* first = static_cast<unsigned char*>(memory.allocate(1000, "first"));
  auto* second = static_cast<unsigned char*>(memory.allocate(1, "second"));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0u);
  EXPECT_EQ(first[0], 0xFF);
  EXPECT_EQ(first[999], 0xFF);
  EXPECT_EQ(memory.find(first + 999)->name, "first");
  EXPECT_EQ(memory.nearest(second + 5)->name, "second");
  EXPECT_EQ(memory.find_damaged_margin(), nullptr);
  first[1000] = 0;
  ASSERT_NE(memory.find_damaged_margin(), nullptr);
  EXPECT_EQ(memory.find_damaged_margin()->name, "first");
  first[1000] = 0xFF;
  second[-1] = 0;
  ASSERT_NE(memory.find_damaged_margin(), nullptr);
  EXPECT_EQ(memory.find_damaged_margin()->name, "second");
  memory.clear();
  EXPECT_EQ(memory.find(first), nullptr);
}

TEST(SimtBackend, DescribesItselfAndRunsAKernelHere) {
  const auto backend = make_simt_backend();
  ASSERT_EQ(backend->devices().size(), 1u);
  EXPECT_EQ(backend->devices()[0].name, "SIMT emulator");
  FT_SKIP_WITHOUT_EMULATOR();
  int trials = 0;
  for (const Check& check : backend->diagnose({})) {
    EXPECT_NE(check.status, Check::Status::missing) << check.what << ": " << check.detail;
    EXPECT_EQ(check.remedy.empty(), check.status == Check::Status::ok) << check.what;
    trials += check.what.find("compile and run a kernel") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(trials, 2);
}

TEST(SimtBackend, NamesAMissingCompilerAndDoesNotThrow) {
  bool named = false;
  for (const Check& check : make_simt_backend()->diagnose({.cxx = "no-such-compiler"})) {
    named = named || (check.status == Check::Status::missing &&
                      check.detail.find("no-such-compiler") != std::string::npos);
  }
  EXPECT_TRUE(named);
}

}  // namespace
}  // namespace fusetune::backend::simt
