#include "backend/cuda/ptxas_log.h"

#include <gtest/gtest.h>

namespace fusetune::backend::cuda {
namespace {

// NVRTC 13.0, two kernels and a function that was not inlined.
constexpr std::string_view kTwoKernels = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
ptxas         .     160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers, 160 bytes cumulative stack size, 364 bytes cmem[0]
ptxas info    : Compile time = 18.861 ms
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'spilled' for 'sm_80'
ptxas info    : Function properties for spilled
ptxas         .     416 bytes stack frame, 760 bytes spill stores, 764 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 416 bytes cumulative stack size, 1024 bytes smem, 372 bytes cmem[0]
ptxas info    : Compile time = 45.150 ms
)";

TEST(PtxasLog, EachKernelHasItsOwnNumbers) {
  const auto spilled = parse_ptxas_log(kTwoKernels, "spilled");
  ASSERT_TRUE(spilled);
  EXPECT_EQ(*spilled, (KernelResources{.registers = 32,
                                       .barriers = 1,
                                       .stack_frame_bytes = 416,
                                       .spill_store_bytes = 760,
                                       .spill_load_bytes = 764,
                                       .static_shared_bytes = 1024,
                                       .constant_bytes = 372}));
  const auto second = parse_ptxas_log(kTwoKernels, "second");
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, (KernelResources{.registers = 30,
                                      .barriers = 0,
                                      .stack_frame_bytes = 160,
                                      .spill_store_bytes = 0,
                                      .spill_load_bytes = 0,
                                      .static_shared_bytes = 0,
                                      .constant_bytes = 364}));
}

TEST(PtxasLog, ANameIsNotFoundInALongerOne) {
  EXPECT_FALSE(parse_ptxas_log(kTwoKernels, "spill"));
  EXPECT_FALSE(parse_ptxas_log(kTwoKernels, "_Z6helperPfi"));
  EXPECT_FALSE(parse_ptxas_log("", "spilled"));
}

TEST(PtxasLog, HopperSaysNothingOfConstantMemory) {
  const auto resources = parse_ptxas_log(R"(ptxas info    : 8 bytes gmem
ptxas info    : Compiling entry function 'probe' for 'sm_90a'
ptxas info    : Function properties for probe
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, used 1 barriers
ptxas info    : Compile time = 3.814 ms
)",
                                         "probe");
  ASSERT_TRUE(resources);
  EXPECT_EQ(resources->registers, 18);
  EXPECT_EQ(resources->barriers, 1);
  EXPECT_EQ(resources->constant_bytes, 0);
}

TEST(PtxasLog, OlderAssemblersIndentAndHaveNoBarriers) {
  const auto resources = parse_ptxas_log(R"(ptxas info    : 0 bytes gmem, 24 bytes cmem[3]
ptxas info    : Compiling entry function 'gemm' for 'sm_86'
ptxas info    : Function properties for gemm
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, 49152 bytes smem, 400 bytes cmem[0], 16 bytes cmem[2])",
                                         "gemm");
  ASSERT_TRUE(resources);
  EXPECT_EQ(*resources, (KernelResources{.registers = 168,
                                         .barriers = 0,
                                         .stack_frame_bytes = 8,
                                         .spill_store_bytes = 4,
                                         .spill_load_bytes = 12,
                                         .static_shared_bytes = 49152,
                                         .constant_bytes = 416}));
}

TEST(PtxasLog, WarningsBeforeItAndACutLogDoNotConfuse) {
  const std::string warned =
      "gemm.cu(3): warning #177-D: variable \"Used registers\" was declared but "
      "never referenced\n" +
      std::string(kTwoKernels);
  EXPECT_EQ(parse_ptxas_log(warned, "spilled"), parse_ptxas_log(kTwoKernels, "spilled"));
  const std::string_view cut = kTwoKernels.substr(0, kTwoKernels.find("Used 32 registers"));
  EXPECT_FALSE(parse_ptxas_log(cut, "spilled"));
}

TEST(PtxasLog, FailedCompilesHaveNoResources) {
  EXPECT_FALSE(
      parse_ptxas_log("ptxas application ptx input, line 41; error   : Feature 'cp.async' requires "
                      ".target sm_80 or higher\nptxas fatal   : Ptx assembly aborted due to errors\n",
                      "probe"));
}

}  // namespace
}  // namespace fusetune::backend::cuda
