#include "backend/cpu/loaded_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/test_kernels.h"
#include "base/error.h"
#include "base/file.h"

namespace fusetune::backend::cpu {
namespace {

namespace fs = std::filesystem;
using testing::compile_one;
using testing::constant_kernel;
using testing::make_kernel;
using testing::system_compiler;

float call(const LoadedKernel& kernel) {
  alignas(64) float out[16] = {};
  ft_args args = {};
  args.tensor[0] = out;
  ft_barrier barrier = {};
  kernel.function()(&args, 0, 1, &barrier);
  return out[0];
}

class LoadedKernelTest : public ::testing::Test {
 protected:
  CompiledKernel compile(const codegen::KernelSource& source) { return compile_one(compiler_, source); }

  /// The compiled kernel under a path of the test's own.
  CompiledKernel placed_at(const fs::path& path, const CompiledKernel& kernel) {
    fs::copy_file(kernel.library, path, fs::copy_options::overwrite_existing);  // same inode, new content
    CompiledKernel placed = kernel;
    placed.library = path;
    return placed;
  }

  KernelCompiler compiler_{system_compiler(), lower::Isa::generic, {}};
  base::TemporaryDirectory directory_;
};

TEST_F(LoadedKernelTest, ALibraryRebuiltUnderItsPathIsTheNewCode) {
  const fs::path path = directory_.path() / "kernels.so";
  const CompiledKernel one = compile(constant_kernel("ft_rebuilt", "1.0f"));
  const CompiledKernel two = compile(constant_kernel("ft_rebuilt", "2.0f"));
  const LoadedKernel first(placed_at(path, one));
  EXPECT_EQ(call(first), 1.0f);
  const LoadedKernel second(placed_at(path, two));
  EXPECT_EQ(call(second), 2.0f);
  EXPECT_EQ(call(first), 1.0f);  // overwriting the file does not touch what runs
  const LoadedKernel third(placed_at(path, one));
  EXPECT_EQ(call(third), 1.0f);
}

TEST_F(LoadedKernelTest, UnloadingAndLoadingAgainNeverGivesOldCode) {
  const fs::path path = directory_.path() / "kernels.so";
  for (int i = 0; i < 6; ++i) {  // descriptors and inodes are reused from turn to turn
    const CompiledKernel kernel = compile(constant_kernel("ft_turn", std::to_string(i) + ".0f"));
    EXPECT_EQ(call(LoadedKernel(placed_at(path, kernel))), static_cast<float>(i));
  }
}

TEST_F(LoadedKernelTest, KernelsOfOneLibraryShareIt) {
  const std::vector<codegen::KernelSource> sources = {
      make_kernel("ft_left", "static int calls; ((float*)args->tensor[0])[0] = ++calls;"),
      constant_kernel("ft_right", "4.0f")};
  CompileOptions options;
  options.jobs = 1;
  KernelCompiler one_unit(system_compiler(), lower::Isa::generic, options);
  const auto results = one_unit.compile(sources);
  ASSERT_EQ(results[0].kernel.library, results[1].kernel.library);
  const LoadedKernel left(results[0].kernel), again(results[0].kernel), right(results[1].kernel);
  EXPECT_EQ(left.function(), again.function());
  EXPECT_EQ(call(left), 1.0f);
  EXPECT_EQ(call(again), 2.0f);
  EXPECT_EQ(call(right), 4.0f);
  EXPECT_EQ(right.source().symbol, "ft_right");
}

TEST_F(LoadedKernelTest, StaticDataOfTemplatesIsPrivateToItsLibrary) {
  const auto source = [](const char* symbol, const char* value) {
    auto kernel = make_kernel(symbol, "((float*)args->tensor[0])[0] = Table<int>::value;");
    kernel.body = std::string(
                      "template <typename T> struct Table { static float value; };\n"
                      "template <typename T> float Table<T>::value = ") +
                  value + ";\n" + kernel.body;
    return kernel;
  };
  const LoadedKernel first(compile(source("ft_table_1", "1.0f")));
  const LoadedKernel second(compile(source("ft_table_2", "2.0f")));
  EXPECT_EQ(call(first), 1.0f);
  EXPECT_EQ(call(second), 2.0f);
}

TEST_F(LoadedKernelTest, AMoveKeepsTheFunction) {
  LoadedKernel kernel(compile(constant_kernel("ft_moved", "5.0f")));
  const LoadedKernel moved = std::move(kernel);
  EXPECT_EQ(call(moved), 5.0f);
}

std::string failure(const CompiledKernel& kernel) {
  try {
    const LoadedKernel loaded(kernel);
  } catch (const base::EnvironmentError& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(LoadedKernelTest, DamagedMissingAndForeignLibrariesAreErrorsNotCrashes) {
  const CompiledKernel good = compile(constant_kernel("ft_good", "6.0f"));
  CompiledKernel kernel = placed_at(directory_.path() / "cut.so", good);
  fs::resize_file(kernel.library, 100);
  EXPECT_THAT(failure(kernel), ::testing::HasSubstr("cut.so"));
  base::write_file_atomic(directory_.path() / "text.so", "hello");
  kernel.library = directory_.path() / "text.so";
  EXPECT_THAT(failure(kernel), ::testing::HasSubstr("text.so"));
  kernel.library = directory_.path() / "none.so";
  EXPECT_THAT(failure(kernel), ::testing::HasSubstr("none.so"));
  kernel = good;
  kernel.symbol = "ft_other";
  EXPECT_THAT(failure(kernel), ::testing::HasSubstr("ft_other"));
}

TEST_F(LoadedKernelTest, ALibraryOfTheCacheThatWasCutIsRefusedBeforeItIsMapped) {
  const CompiledKernel kernel = compile(constant_kernel("ft_cut", "7.0f"));
  // All headers present, the code missing: mapping it would end in SIGBUS.
  fs::resize_file(kernel.library, fs::file_size(kernel.library) - 1);
  EXPECT_THAT(failure(kernel), ::testing::HasSubstr("was changed or cut"));
}

}  // namespace
}  // namespace fusetune::backend::cpu
