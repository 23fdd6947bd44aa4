// Kernels written by hand on the fake driver: how sequences are launched, timed and looked after.
#include "backend/cuda/cuda_executor.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/cuda_block.h"
#include "backend/cuda/device_compiler.h"
#include "backend/simt/library_compiler.h"
#include "installed_nvrtc.h"

namespace fusetune::backend::cuda {
namespace {

using block::Tensor;
using ::testing::AllOf;
using ::testing::HasSubstr;

block::Problem small_problem() {
  block::Problem problem;
  problem.batch = 2;
  problem.seq = 8;
  problem.heads = 2;
  problem.head_size = 8;
  problem.ffn = 32;
  problem.dtype = block::Dtype::f32;
  return problem;
}

/// One warp that reads `hidden` and weight w_out and does `statements` with `output`, from thread 0.
codegen::GpuKernel kernel_of(std::uint64_t id, const std::string& statements) {
  codegen::GpuKernel kernel;
  kernel.variant = {{14, 14}, false};
  kernel.schedule.warps = 1;
  kernel.symbol = "by_hand_" + std::to_string(id);
  kernel.hash = fmt::format("{:016x}", id);
  kernel.includes = {"cuda/abi.h"};
  kernel.reads = {Tensor::hidden};
  kernel.writes = {Tensor::output};
  kernel.weights = {block::Weight::w_out};
  kernel.seq = 8;
  kernel.heads = 2;
  kernel.stages = 1;
  kernel.tasks = {{1000, 1, false}};
  kernel.body = "FT_KERNEL_ID(" + std::to_string(id) + "ull);\nFT_KERNEL(" + kernel.symbol + R"(, 32) {
  float* const output = static_cast<float*>(args.tensor[)" +
                std::to_string(static_cast<int>(Tensor::output)) + R"(]);
  if (ft::thread_index() != 0) return;
)" + statements +
                "\n}\n";
  return kernel;
}

/// Kernels are compiled twice: for the device by NVRTC, and for the fake driver by the emulator's compiler.
class CudaExecutorTest : public CompilingTest {
 protected:
  CompiledKernel compile(const codegen::GpuKernel& kernel) {
    if (!compiler_)
      compiler_ = make_device_compiler(*nvrtc, {90, true}, {.cache_directory = folder_.path()}, {});
    const codegen::AnyKernel any = kernel;
    const CompileResult result = compiler_->compile({&any, 1}, {}).front();
    EXPECT_EQ(result.status, CompileResult::Status::ok) << result.log;
    const std::vector<std::string> units = {
        codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::simt)};
    simt::LibraryCompiler emulated(cpu::find_compiler(""), simt::Mode::fast,
                                   {.cache_directory = folder_.path()});
    const simt::LibraryResult library = emulated.compile(units).front();
    EXPECT_NE(library.library, nullptr) << library.log;
    if (library.library == nullptr) return {};
    std::filesystem::copy_file(library.library->path(), folder_.path() / (kernel.hash + ".so"));
    return result.kernel;
  }

  std::unique_ptr<Executor> executor(const ExecutorOptions& options = {}) {
    const block::Problem problem = small_problem();
    return make_executor(problem, block::Mask(problem.mask, problem.batch, problem.seq),
                         block::generate_data(problem), options);
  }

  base::TemporaryDirectory folder_;
  ScopedVariable driver_{"FUSETUNE_DRIVER", FAKE_DRIVER};
  ScopedVariable device_{"FUSETUNE_FAKE_DRIVER", "small"};
  ScopedVariable kernels_{"FUSETUNE_FAKE_KERNELS", folder_.path().string()};
  std::unique_ptr<DeviceCompiler> compiler_;
};

TEST_F(CudaExecutorTest, ASampleIsAsManyPassesAsAskedForInOrder) {
  const auto device = executor();
  const CompiledKernel first = compile(kernel_of(1, "output[0] += 1; output[1] = 2 * output[1];"));
  const CompiledKernel second = compile(kernel_of(2, "output[1] += 1;"));
  const auto sequence = device->load(std::vector{first, second});
  device->write(Tensor::output, std::vector<double>(2 * 8 * 16, 0));
  EXPECT_EQ(sequence->ready(), 1);
  EXPECT_GT(sequence->run_timed(0, 5), 0);
  EXPECT_EQ(device->read(Tensor::output)[0], 5);
  EXPECT_EQ(device->read(Tensor::output)[1], 31);  // doubled, then one more, five times
  sequence->run();
  EXPECT_EQ(device->read(Tensor::output)[0], 6);
  const StampedRun stamped = sequence->run_stamped(0);
  EXPECT_EQ(device->read(Tensor::output)[0], 7);
  ASSERT_EQ(stamped.times.size(), 3U);
  EXPECT_TRUE(std::is_sorted(stamped.times.begin(), stamped.times.end()));
  ASSERT_EQ(stamped.calls.size(), 3U);  // two launches, and waiting for their end
  EXPECT_EQ(stamped.calls[1].name, "launch [14]");
  EXPECT_GE(stamped.calls[0].begin, stamped.times.front());
  for (const HostCall& call : stamped.calls) EXPECT_LE(call.begin, call.end);
  EXPECT_GE(sequence->run_stamped(0).times.front(), stamped.times.back());  // the clock goes on
}

TEST_F(CudaExecutorTest, NoSampleWaitsForItsGraphToReachTheDevice) {
  const auto device = executor({.rotation_bytes = 3 * 16 * 16 * 4});
  const CompiledKernel kernel = compile(kernel_of(1, "output[0] += 1;"));
  const auto sequence = device->load({&kernel, 1});
  for (int copy = 0; copy < sequence->ready(); ++copy) EXPECT_GT(sequence->run_timed(copy, 2), 0);
  void* const driver = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(driver, nullptr);
  const auto uploads =
      reinterpret_cast<int (*)()>(dlsym(driver, "fusetune_fake_uploads_by_launches"));  // NOLINT
  ASSERT_NE(uploads, nullptr);
  EXPECT_EQ(uploads(), 0);
  dlclose(driver);
}

TEST_F(CudaExecutorTest, WeightsRotateThroughAsManyCopiesAsSpanTheBytes) {
  const std::int64_t weight_bytes = 16 * 16 * 4;
  const auto device = executor({.rotation_bytes = 3 * weight_bytes + 1});
  // Which copy it was: the lowest bits of its address, as memory comes in multiples of 256 bytes.
  const CompiledKernel kernel =
      compile(kernel_of(3,
                        "output[0] = static_cast<float>(reinterpret_cast<unsigned long long>(args.weight[1]) "
                        ">> 8 & 0xffff);\n  output[1] = static_cast<const float*>(args.weight[1])[5];"));
  const auto sequence = device->load({&kernel, 1});
  ASSERT_EQ(sequence->ready(), 4);
  std::vector<float> copies;
  const block::BlockData data = block::generate_data(small_problem());
  for (int copy = 0; copy < 4; ++copy) {
    sequence->run_timed(copy, 1);
    copies.push_back(device->read(Tensor::output)[0]);
    EXPECT_EQ(device->read(Tensor::output)[1], data[block::Weight::w_out][5]) << copy;
  }
  sequence->run_timed(3, 2);
  EXPECT_EQ(device->read(Tensor::output)[0], copies[0]);  // behind the last comes the first
  std::sort(copies.begin(), copies.end());
  EXPECT_EQ(std::unique(copies.begin(), copies.end()), copies.end());
}

TEST_F(CudaExecutorTest, WritesOutsideOfATensorAreFoundOnceAndNamed) {
  const auto device = executor();
  for (const auto& [id, place] : {std::pair{4, "-1"}, std::pair{5, "2 * 8 * 16"}}) {
    const CompiledKernel kernel = compile(kernel_of(id, "output[" + std::string(place) + "] = 1;"));
    device->load({&kernel, 1})->run();
    EXPECT_THAT(device->find_damage(), AllOf(HasSubstr("guard bytes"), HasSubstr("around output")));
    EXPECT_EQ(device->find_damage(), "");
  }
}

TEST_F(CudaExecutorTest, CountersThatAreNotPutBackAreFound) {
  const auto device = executor();
  const CompiledKernel kernel = compile(kernel_of(6, "args.sync[1] = 3;"));
  const auto sequence = device->load({&kernel, 1});
  sequence->run();
  EXPECT_THAT(device->find_damage(), AllOf(HasSubstr("counter 1"), HasSubstr("at 3")));
  EXPECT_EQ(device->find_damage(), "");
}

TEST_F(CudaExecutorTest, TensorsStartAsNaNAndHoldWhatIsWritten) {
  const auto device = executor();
  EXPECT_TRUE(std::isnan(device->read(Tensor::output)[7]));
  device->write(Tensor::output, std::vector<double>(2 * 8 * 16, 0.25));
  EXPECT_EQ(device->read(Tensor::output)[7], 0.25F);
  device->poison(Tensor::output);
  EXPECT_TRUE(std::isnan(device->read(Tensor::output).back()));
  EXPECT_EQ(device->read(Tensor::hidden)[3], block::generate_data(small_problem()).hidden[3]);
  EXPECT_THROW(device->write(Tensor::output, std::vector<double>(3)), base::InternalError);
  EXPECT_EQ(device->find_damage(), "");
}

/// The error that running a kernel ends with.
DeviceError error_of(LaunchSequence& sequence) {
  try {
    sequence.run();
  } catch (const DeviceError& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return DeviceError("none");
}

TEST_F(CudaExecutorTest, ErrorsThatStayAreFatalAndNameTheKernel) {
  const ScopedVariable faults("FUSETUNE_FAKE_FAULTS", "illegal:by_hand_7");
  const auto device = executor();
  const CompiledKernel kernel = compile(kernel_of(7, "output[0] = 1;"));
  const auto sequence = device->load({&kernel, 1});
  const DeviceError error = error_of(*sequence);
  EXPECT_TRUE(error.is_fatal);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("by_hand_7"), HasSubstr("ILLEGAL_ADDRESS")));
}

TEST_F(CudaExecutorTest, MissingResourcesCostTheCandidateOnly) {
  const ScopedVariable faults("FUSETUNE_FAKE_FAULTS", "resources:by_hand_8");
  const auto device = executor();
  const CompiledKernel kernel = compile(kernel_of(8, "output[0] = 1;"));
  const auto sequence = device->load({&kernel, 1});
  const DeviceError error = error_of(*sequence);
  EXPECT_FALSE(error.is_fatal);
  EXPECT_TRUE(error.is_resource_limit);
  const CompiledKernel other = compile(kernel_of(9, "output[0] = 4;"));
  device->load({&other, 1})->run();
  EXPECT_EQ(device->read(Tensor::output)[0], 4);
}

TEST_F(CudaExecutorTest, MoreSharedMemoryThanTheDeviceHasIsRefusedWithBothFigures) {
  const auto device = executor();
  codegen::GpuKernel kernel = kernel_of(10, "output[0] = 1;");
  kernel.shared_bytes = (227 << 10) + 16;
  const CompiledKernel compiled = compile(kernel);
  try {
    device->load({&compiled, 1});
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_TRUE(error.is_resource_limit);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("232464"), HasSubstr("232448")));
  }
}

/// Segments by the fake cuBLASLt: [7] unless another is named.
class LibraryProducts : public ::testing::Test {
 protected:
  static block::Problem problem_in(block::Dtype dtype) {
    block::Problem problem = small_problem();
    problem.dtype = dtype;
    return problem;
  }
  static CompiledKernel product(const block::Problem& problem, const plan::Segment& segment = {7, 7}) {
    lower::GpuTarget target;
    target.library = find_cublaslt();
    EXPECT_EQ(target.library->version, "cuBLASLt 13.0.2") << target.library->missing;
    return {codegen::generate_library({segment, false}, lower::GpuSchedule::parse("product=library"), problem,
                                      target),
            {},
            0};
  }
  static std::unique_ptr<Executor> executor(const block::Problem& problem,
                                            const ExecutorOptions& options = {}) {
    return make_executor(problem, block::Mask(problem.mask, problem.batch, problem.seq),
                         block::generate_data(problem), options);
  }
  /// `rows` of numbers times one of the block's weights, before anything is rounded.
  static std::vector<double> product_of(const block::Problem& problem, const std::vector<double>& rows,
                                        block::Weight weight) {
    const block::BlockData data = block::generate_data(problem);
    const auto d = static_cast<std::size_t>(problem.hidden()), n = data[weight].size() / d;
    std::vector<double> product(rows.size() / d * n);
    for (std::size_t i = 0; i < rows.size() / d; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t k = 0; k < d; ++k)
          product[i * n + j] += rows[i * d + k] * double{data[weight][k * n + j]};
    return product;
  }
  /// The same with bias and GELU.
  static std::vector<double> activated(const block::Problem& problem, const std::vector<double>& norm1) {
    const block::BlockData data = block::generate_data(problem);
    const auto& bias = data[block::Parameter::b_ffn1];
    std::vector<double> values = product_of(problem, norm1, block::Weight::w_ffn1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double x = values[i] + double{bias[i % bias.size()]};
      values[i] = x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
    return values;
  }
  static void expect_near(const std::vector<float>& got, const std::vector<double>& want, double bound) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(double{got[i]}, want[i], bound) << i;
  }

  ScopedVariable driver_{"FUSETUNE_DRIVER", FAKE_DRIVER};
  ScopedVariable device_{"FUSETUNE_FAKE_DRIVER", "small"};
  ScopedVariable library_{"FUSETUNE_CUBLASLT", FAKE_CUBLASLT};
};

TEST_F(LibraryProducts, RunAloneInGraphsAndStamped) {
  for (const auto& [dtype, bound] : {std::pair(block::Dtype::f32, 1e-5), std::pair(block::Dtype::f16, 2e-2),
                                     std::pair(block::Dtype::bf16, 2e-1)}) {
    const block::Problem problem = problem_in(dtype);
    const auto device = executor(problem, {.rotation_bytes = 3 * 16 * 16 * 4});
    const CompiledKernel kernel = product(problem);
    const auto sequence = device->load({&kernel, 1});
    EXPECT_GT(sequence->ready(), 1);  // copies of its weight
    std::vector<double> merged(2 * 8 * 16);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < merged.size(); ++i)
        merged[i] = static_cast<double>((i * 7 + static_cast<std::size_t>(round)) % 5) - 2;
      device->write(Tensor::merged, merged);
      device->poison(Tensor::attn_proj);
      if (round == 0) {
        sequence->run();
      } else if (round == 1) {
        EXPECT_GT(sequence->run_timed(1, 3), 0);
      } else {
        EXPECT_EQ(sequence->run_stamped(2).calls.at(0).name, "launch [7]");
      }
      expect_near(device->read(Tensor::attn_proj), product_of(problem, merged, block::Weight::w_out), bound);
    }
    EXPECT_EQ(device->find_damage(), "");
  }
}

TEST_F(LibraryProducts, BiasAndGeluAreThoseOfTheBlock) {
  block::Problem problem = problem_in(block::Dtype::f32);
  problem.gelu = block::Gelu::tanh;
  const auto device = executor(problem, {.rotation_bytes = 3 * problem.hidden() * problem.ffn * 4});
  const CompiledKernel kernel = product(problem, {10, 11});
  const auto sequence = device->load({&kernel, 1});
  EXPECT_EQ(sequence->ready(), 3);
  const std::vector<double> norm1 = [] {
    std::vector<double> values(2 * 8 * 16);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 5) - 2;
    return values;
  }();
  device->write(Tensor::norm1, norm1);
  const auto expect_activated = [&] {
    expect_near(device->read(Tensor::ffn_act), activated(problem, norm1), 1e-5);
    device->poison(Tensor::ffn_act);
  };
  sequence->run();
  expect_activated();
  EXPECT_GT(sequence->run_timed(1, 2), 0);
  expect_activated();
  EXPECT_EQ(sequence->run_stamped(2).calls.at(0).name, "launch [10-11]");
  expect_activated();
  EXPECT_EQ(device->find_damage(), "");
}

TEST_F(LibraryProducts, OnesThatItDoesNotOfferAreAResourceThatIsShort) {
  const block::Problem problem = problem_in(block::Dtype::f16);
  const auto device = executor(problem);
  const CompiledKernel kernel = product(problem);
  const ScopedVariable none("FUSETUNE_FAKE_CUBLASLT", "none");
  try {
    device->load({&kernel, 1});
    FAIL() << "loaded";
  } catch (const DeviceError& error) {
    EXPECT_TRUE(error.is_resource_limit);
    EXPECT_FALSE(error.is_fatal);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("ft_library_7_7_f16_"), HasSubstr("no algorithm"),
                                    HasSubstr("16x16 with 16x16 in f16")));
  }
}

TEST_F(LibraryProducts, ACallThatFailsNamesTheProduct) {
  const block::Problem problem = problem_in(block::Dtype::f32);
  const auto device = executor(problem);
  const CompiledKernel kernel = product(problem);
  const auto sequence = device->load({&kernel, 1});
  const ScopedVariable failing("FUSETUNE_FAKE_CUBLASLT", "failing");
  const DeviceError error = error_of(*sequence);
  EXPECT_FALSE(error.is_fatal);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("ft_library_7_7_f32_"), HasSubstr("EXECUTION_FAILED")));
}

TEST_F(LibraryProducts, AMissingLibraryIsAReason) {
  const ScopedVariable missing("FUSETUNE_CUBLASLT", "/no/such/libcublasLt.so");
  const lower::GpuLibrary library = find_cublaslt();
  EXPECT_EQ(library.version, "");
  EXPECT_THAT(library.missing, HasSubstr("/no/such/libcublasLt.so"));
}

TEST_F(LibraryProducts, NothingIsCompiledForThem) {
  std::string reason;
  const auto nvrtc = installed_nvrtc(reason);
  if (!nvrtc) GTEST_SKIP() << reason;
  const auto compiler = make_device_compiler(*nvrtc, {90, true}, {}, {});
  const codegen::AnyKernel kernel = product(problem_in(block::Dtype::f16)).source;
  EXPECT_EQ(compiler->count_missing({&kernel, 1}), 0U);
  const CompileResult result = compiler->compile({&kernel, 1}, {}).front();
  EXPECT_EQ(result.status, CompileResult::Status::ok);
  EXPECT_EQ(result.kernel.image, "");
  ASSERT_NE(result.kernel.source.library(), nullptr);
}

}  // namespace
}  // namespace fusetune::backend::cuda
