// One planted fault of each kind, each found with the kernel's name and the line.
#include <cmath>
#include <map>

#include "backend/simt/test_support.h"

namespace fusetune::backend::simt {
namespace {

using ::testing::AllOf;
using testing::compile;
using ::testing::HasSubstr;
using testing::line_of;
using testing::message_of;

// tensor[0]: 256 floats to read. tensor[1]: 256 floats to read and write. tensor[2]: 256 nobody has written.
// Every launch has two blocks of 64 threads and 1024 bytes of shared memory.
const std::string kKernels = R"(
#define IN (static_cast<const float*>(args.tensor[0]))
#define DATA (static_cast<float*>(args.tensor[1]))
#define NEW (static_cast<float*>(args.tensor[2]))
#define THREAD thread_index()
#define INDEX (block_index() * 64 + thread_index())
#define SHARED FT_SHARED(bytes); float* shared = reinterpret_cast<float*>(bytes)

FT_KERNEL(no_block_sync, 64) {
  SHARED;
  shared[THREAD] = IN[THREAD];
  DATA[INDEX] = shared[THREAD / 2];  // no_block_sync
}
FT_KERNEL(no_block_sync_before_reuse, 64) {
  SHARED;
  shared[THREAD] = IN[THREAD];
  block_sync();
  const float x = shared[63 - THREAD];  // no_block_sync_before_reuse
  shared[THREAD] = x;
}
FT_KERNEL(global_race, 64) {
  if (THREAD < 8) DATA[THREAD] = IN[THREAD];  // global_race
}
FT_KERNEL(no_grid_barrier, 64) {
  DATA[INDEX] = IN[INDEX];  // no_grid_barrier
  block_sync();
  NEW[INDEX] = DATA[127 - INDEX];
}
FT_KERNEL(no_warp_sync, 64) {
  SHARED;
  float* mine = shared + THREAD / 32 * 128;
  for (int i = THREAD % 32; i < 128; i += 32) mine[i] = IN[i];
  u32 r[4];
  ldmatrix_x4(r, reinterpret_cast<f16*>(mine) + THREAD % 32 * 8);  // no_warp_sync
  DATA[INDEX] = bits_float(r[0]);
}
FT_KERNEL(uninitialised_register, 64) {
  float x;
  if (IN[0] > 1e30f) x = 2;
  NEW[INDEX] = x + 1;
}
FT_KERNEL(past_global, 64) {
  DATA[INDEX + 129] = 1;  // past_global
}
FT_KERNEL(before_global, 64) {
  DATA[INDEX] = IN[INDEX - 1];  // before_global
}
FT_KERNEL(past_shared, 64) {
  SHARED;
  shared[THREAD + 193] = 1;  // past_shared
}
FT_KERNEL(null_pointer, 64) {
  static_cast<float*>(args.tensor[9])[THREAD] = 1;  // null_pointer
}
FT_KERNEL(past_shared_ldmatrix, 64) {
  SHARED;
  for (int i = THREAD; i < 256; i += 64) shared[i] = 0;
  block_sync();
  u32 r[4];
  ldmatrix_x4(r, bytes + 512 + THREAD * 16);  // past_shared_ldmatrix
}
FT_KERNEL(two_barriers, 64) {
  if (THREAD < 32) {
    block_sync();
  } else {
    block_sync();  // two_barriers
  }
}
FT_KERNEL(barrier_after_exit, 64) {
  if (THREAD >= 32) return;
  block_sync();  // barrier_after_exit
}
FT_KERNEL(half_a_warp_shuffles, 64) {
  if (THREAD >= 32 && THREAD < 48) shuffle_xor(1.0f, 1);  // half_a_warp_shuffles
  block_sync();
}
FT_KERNEL(no_copy_wait, 64) {
  SHARED;
  if (THREAD < 16) copy_async<16>(shared + THREAD * 4, IN + THREAD * 4, true);
  copy_async_commit();
  block_sync();
  DATA[INDEX] = shared[THREAD];  // no_copy_wait
  copy_async_wait<0>();
}
FT_KERNEL(copy_wait_without_barrier, 64) {
  SHARED;
  if (THREAD < 16) copy_async<16>(shared + THREAD * 4, IN + THREAD * 4, true);
  copy_async_commit();
  copy_async_wait<0>();
  DATA[INDEX] = shared[THREAD / 2];  // copy_wait_without_barrier
}
FT_KERNEL(wait_for_too_few_groups, 64) {
  SHARED;
  if (THREAD < 16) copy_async<16>(shared + THREAD * 4, IN + THREAD * 4, true);
  copy_async_commit();
  copy_async_commit();
  copy_async_wait<2>();
  block_sync();
  DATA[INDEX] = shared[THREAD];  // wait_for_too_few_groups
  copy_async_wait<0>();
}
FT_KERNEL(write_before_copy_wait, 64) {
  SHARED;
  copy_async<4>(shared + THREAD, IN + THREAD, true);
  copy_async_commit();
  shared[THREAD] = 1;  // write_before_copy_wait
  copy_async_wait<0>();
}
FT_KERNEL(source_overwritten, 64) {
  SHARED;
  if (THREAD < 16) copy_async<16>(shared + THREAD * 4, DATA + block_index() * 64 + THREAD * 4, true);
  copy_async_commit();
  block_sync();
  DATA[INDEX] = 2;  // source_overwritten
  copy_async_wait<0>();
}
FT_KERNEL(copy_never_waited_for, 64) {
  SHARED;
  copy_async<4>(shared + THREAD, IN + THREAD, true);  // copy_never_waited_for
  copy_async_commit();
}
FT_KERNEL(copy_past_global, 64) {
  SHARED;
  copy_async<4>(shared + THREAD, IN + INDEX + 129, true);  // copy_past_global
  copy_async_commit();
  copy_async_wait<0>();
}
FT_KERNEL(uninitialised_shared, 64) {
  SHARED;
  DATA[INDEX] = shared[THREAD];  // uninitialised_shared
}
FT_KERNEL(uninitialised_global, 64) {
  DATA[INDEX] = NEW[INDEX];  // uninitialised_global
}
FT_KERNEL(misaligned_load, 64) {
  const float* in = IN + THREAD % 2;
  DATA[INDEX] = float(*reinterpret_cast<const u64*>(in));  // misaligned_load
}
FT_KERNEL(misaligned_copy, 64) {
  SHARED;
  copy_async<8>(bytes + 4 + THREAD * 8, IN, true);  // misaligned_copy
  copy_async_wait<0>();
}
FT_KERNEL(read_only, 64) {
  const_cast<float*>(IN)[INDEX] = 1;  // read_only
}
// One block. Two warps read, and the first one writes when its own lanes have.
FT_KERNEL(other_warp_reads, 64) {
  float x = DATA[0];
  for (int i = 0; i < 8; ++i) x += shuffle_xor(DATA[0], 1);
  warp_sync();
  if (THREAD == 0) DATA[0] = x;  // other_warp_reads
}
FT_KERNEL(first_half, 64) {
  if (block_index() == 0) NEW[THREAD] = 1;
}
FT_KERNEL(reads_first_half, 64) {
  if (block_index() == 0) DATA[THREAD] = NEW[THREAD];
}
FT_KERNEL(reads_second_half, 64) {
  DATA[INDEX] = NEW[INDEX];  // reads_second_half
}
FT_KERNEL(unwritten, 64) {
  if (THREAD != 5) NEW[INDEX] = 1;
}
FT_KERNEL(endless_loop, 64) {
  while (static_cast<const volatile float*>(IN)[0] != 1e30f) {  // endless_loop
  }
}
FT_KERNEL(divergent_shuffle, 64) {
  float x = 1;
  if (THREAD % 32 < 16) x = shuffle_xor(x, 1);  // divergent_shuffle
  DATA[INDEX] = x;
}
FT_KERNEL(two_shuffles, 64) {
  float x = 1;
  if (THREAD % 32 < 16) {
    x = shuffle_xor(x, 1);
  } else {
    x = shuffle_xor(x, 1);  // two_shuffles
  }
  DATA[INDEX] = x;
}
FT_KERNEL(large_frame, 64) {  // large_frame
  volatile float large[40000];
  for (int i = 0; i < 40000; ++i) large[i] = IN[i % 256];
  DATA[INDEX] = large[THREAD];
}
FT_KERNEL(index_past_array, 64) {
  float local[4] = {1, 2, 3, 4};
  DATA[INDEX] = local[THREAD % 4 + args.batch];  // index_past_array
}
FT_KERNEL(shift_too_far, 64) {
  DATA[INDEX] = float(1u << (31 + args.batch));  // shift_too_far
}
FT_KERNEL(signed_overflow, 64) {
  DATA[INDEX] = float(0x7fffffff + args.batch);  // signed_overflow
}
FT_KERNEL(division_by_zero, 64) {
  DATA[INDEX] = float(7 / (args.batch - 1));  // division_by_zero
}
FT_KERNEL(uncooperative_barrier, 64) {
  grid_barrier(args.sync);  // uncooperative_barrier
}
FT_KERNEL(uncooperative_wait, 64) {
  counter_wait(args.sync, 1);  // uncooperative_wait
}

// ---- cooperative

FT_KERNEL(one_block_leaves, 64) {
  if (block_index() == 1) return;
  grid_barrier(args.sync);  // one_block_leaves
}
FT_KERNEL(target_too_high, 64) {
  if (block_index() == 0) counter_add(args.sync, 1);
  else counter_wait(args.sync, 2);  // target_too_high
}
FT_KERNEL(read_before_wait, 64) {
  if (block_index() == 0) {
    DATA[THREAD] = 1;
    counter_add(args.sync, 1);
  } else {
    NEW[THREAD] = DATA[THREAD];  // read_before_wait
    counter_wait(args.sync, 1);
  }
}
FT_KERNEL(written_after_add, 64) {
  if (block_index() == 0) {
    counter_add(args.sync, 1);
    DATA[THREAD] = 1;  // written_after_add
    counter_add(args.sync + 1, 1);
  } else {
    counter_wait(args.sync, 1);
    NEW[THREAD] = DATA[THREAD];  // read_of_written_after_add
  }
}
FT_KERNEL(wrong_counter, 64) {
  if (block_index() == 0) {
    DATA[THREAD] = 1;
    counter_add(args.sync, 1);
    counter_add(args.sync + 1, 0);
  } else {
    counter_wait(args.sync + 1, 0);
    NEW[THREAD] = DATA[THREAD];  // wrong_counter
  }
}
// Blocks 0 and 1 each write a half and add 1; block 2 waits for one of them only.
FT_KERNEL(target_too_low, 64) {
  if (block_index() < 2) {
    DATA[INDEX] = 1;
    counter_add(args.sync, 1);
  } else {
    counter_wait(args.sync, 1);
    NEW[THREAD] = DATA[THREAD] + DATA[64 + THREAD];  // target_too_low
  }
}
// Blocks 0 to 2 read; block 3 overwrites once 0 and 1 have, and does not wait for 2.
FT_KERNEL(overwritten_while_read, 64) {
  if (block_index() < 3) {
    NEW[INDEX] = DATA[THREAD];
    counter_add(args.sync + block_index(), 1);
  } else {
    counter_wait(args.sync, 1);
    counter_wait(args.sync + 1, 1);
    DATA[THREAD] = 2;  // overwritten_while_read
  }
}
// What a block knew before a grid barrier says nothing about what others do after it.
FT_KERNEL(stale_knowledge, 64) {
  for (int i = 0; i < 5; ++i) block_sync();
  if (block_index() == 0) counter_add(args.sync + 1, 1);
  else counter_wait(args.sync + 1, 1);
  grid_barrier(args.sync);
  if (block_index() == 0) DATA[THREAD] = 1;
  else NEW[THREAD] = DATA[THREAD];  // stale_knowledge
}
FT_KERNEL(stale_counter, 64) {
  for (int i = 0; i < 5; ++i) block_sync();
  if (block_index() == 0) counter_add(args.sync + 1, 1);
  grid_barrier(args.sync);
  if (block_index() == 0) DATA[THREAD] = 1;
  else {
    counter_wait(args.sync + 1, 1);
    NEW[THREAD] = DATA[THREAD];  // stale_counter
  }
}
FT_KERNEL(different_targets, 64) {
  counter_add(args.sync, THREAD < 32 ? 1 : 2);  // different_targets
}
)";

enum class Launch { ordinary, cooperative };

struct Fault {
  const char* kernel;
  const char* words;
  Launch launch = Launch::ordinary;
  int blocks = 2;
  const char* line = nullptr;  // the mark of the line; null: the kernel's name
};

class FindingsTest : public ::testing::Test {
 protected:
  void SetUp() override { FT_SKIP_WITHOUT_EMULATOR(); }
  static void TearDownTestSuite() { libraries_.clear(); }

  /// On fresh memory.
  std::string run(const std::string& kernel, Mode mode, Launch how = Launch::ordinary, int blocks = 2,
                  ThreadOrder order = ThreadOrder::forward, std::uint32_t seed = 1) {
    memory_.clear();
    args_ = {};
    float* in = memory_.allocate_array<float>(256, "in", Access::read_only);
    float* data = memory_.allocate_array<float>(256, "data");
    std::fill(in, in + 256, 1.0f);
    std::fill(data, data + 256, 0.0f);
    args_.tensor[0] = in;
    args_.tensor[1] = data;
    args_.tensor[2] = memory_.allocate_array<float>(256, "new", Access::uninitialised);
    args_.sync = memory_.allocate_array<unsigned>(4, "sync");
    std::fill(args_.sync, args_.sync + 4, 0u);
    args_.batch = 1;
    LaunchOptions options;
    options.blocks = blocks;
    options.cooperative = how == Launch::cooperative;
    options.order = order;
    options.seed = seed;
    return run_again(kernel, mode, options);
  }
  std::string run_again(const std::string& kernel, Mode mode, LaunchOptions options = {.blocks = 2}) {
    auto& library = libraries_[mode];
    if (!library) library = compile(kKernels, mode);
    options.shared_bytes = 1024;
    options.timeout_seconds = 0.3;
    return message_of(launch(library->kernel(kernel), args_, memory_, options));
  }

  void expect(const Fault& fault, Mode mode, ThreadOrder order = ThreadOrder::forward) {
    const std::string message = run(fault.kernel, mode, fault.launch, fault.blocks, order);
    const std::string line = line_of(kKernels, fault.line != nullptr ? fault.line : fault.kernel);
    EXPECT_THAT(message, AllOf(HasSubstr(std::string("kernel ") + fault.kernel + ": "),
                               HasSubstr(fault.words), HasSubstr(line)))
        << testing::mode_name(mode);
  }

  static inline std::map<Mode, std::shared_ptr<const KernelLibrary>> libraries_;
  DeviceMemory memory_;
  ft_gpu_args args_ = {};
};

const Fault kCheckedFaults[] = {
    {"no_block_sync", "race: read of shared byte"},
    {"no_block_sync_before_reuse", "race: read of shared byte"},
    {"global_race", "race: write of global 'data' byte 0 of 1024"},
    {"no_grid_barrier", "race: write of global 'data' byte"},
    {"no_warp_sync", "race: read of shared byte"},
    {"past_global", "out of bounds write of 4 bytes"},
    {"before_global", "4 bytes before the start of global 'in'"},
    {"past_shared", "0 bytes past the end of shared memory"},
    {"past_shared_ldmatrix", "out of bounds access of 16 bytes of shared memory"},
    {"null_pointer", "out of bounds write of 4 bytes"},
    {"two_barriers", "barrier divergence: a thread is in block_sync"},
    {"barrier_after_exit", "barrier divergence"},
    {"half_a_warp_shuffles", "warp divergence: not all lanes arrive"},
    {"no_copy_wait", "before copy_async_wait"},
    {"copy_wait_without_barrier", "race: read of shared byte"},
    {"wait_for_too_few_groups", "before copy_async_wait"},
    {"write_before_copy_wait", "write of shared byte 0 of 1024 before copy_async_wait"},
    {"source_overwritten", "race: write of global 'data' byte"},
    {"copy_never_waited_for", "exits before copy_async_wait"},
    {"copy_past_global", "out of bounds read of 4 bytes"},
    {"uninitialised_shared", "uninitialised read of shared byte 0 of 1024"},
    {"uninitialised_global", "uninitialised read of global 'new' byte 0 of 1024"},
    {"misaligned_load", "align"},
    {"misaligned_copy", "misaligned access of 8 bytes"},
    {"read_only", "write to the read-only buffer 'in'"},
    {"endless_loop", "timeout: still running after 0.3 s"},
    {"divergent_shuffle", "warp divergence"},
    {"two_shuffles", "warp divergence: a lane is in shuffle_xor"},
    {"large_frame", "stack overflow"},
    {"index_past_array", "undefined behaviour"},
    {"shift_too_far", "undefined behaviour"},
    {"signed_overflow", "undefined behaviour"},
    {"division_by_zero", "undefined behaviour"},
    {"uncooperative_barrier", "grid_barrier in a launch that is not cooperative"},
    {"uncooperative_wait", "counter_wait in a launch that is not cooperative"},
    {"one_block_leaves", "barrier divergence", Launch::cooperative},
    {"target_too_high", "(the counter is 1, wanted 2)", Launch::cooperative},
    {"read_before_wait", "race: ", Launch::cooperative},
    {"written_after_add", "race: read of global 'data'", Launch::cooperative, 2, "read_of_written_after_add"},
    {"wrong_counter", "race: read of global 'data'", Launch::cooperative},
    {"target_too_low", "race: read of global 'data' byte 256", Launch::cooperative, 3},
    {"overwritten_while_read", "race: write of global 'data' byte", Launch::cooperative, 4},
    {"stale_knowledge", "race: read of global 'data'", Launch::cooperative},
    {"stale_counter", "race: read of global 'data'", Launch::cooperative},
    {"different_targets", "disagree on the operands of counter_add", Launch::cooperative},
};

TEST_F(FindingsTest, ACheckedLaunchFindsEveryPlantedFault) {
  for (const Fault& fault : kCheckedFaults) expect(fault, Mode::checked);
}

// What needs no look at single accesses. Lines come from the operation or the trap.
const Fault kFastFaults[] = {
    {"two_barriers", "barrier divergence: a thread is in block_sync"},
    {"barrier_after_exit", "barrier divergence"},
    {"half_a_warp_shuffles", "warp divergence: not all lanes arrive"},
    {"copy_never_waited_for", "exits before copy_async_wait"},
    {"copy_past_global", "out of bounds read of 4 bytes"},
    {"past_shared_ldmatrix", "out of bounds access of 16 bytes of shared memory"},
    {"misaligned_copy", "misaligned access of 8 bytes"},
    {"null_pointer", "out of bounds"},
    {"read_only", "write to the read-only buffer 'in'"},
    {"endless_loop", "timeout: still running after 0.3 s"},
    {"divergent_shuffle", "warp divergence"},
    {"large_frame", "stack overflow"},
    {"uncooperative_barrier", "grid_barrier in a launch that is not cooperative"},
    {"one_block_leaves", "barrier divergence", Launch::cooperative},
    {"target_too_high", "(the counter is 1, wanted 2)", Launch::cooperative},
    {"different_targets", "disagree on the operands of counter_add", Launch::cooperative},
};

TEST_F(FindingsTest, AFastLaunchFindsWhatNeedsNoLookAtSingleAccesses) {
  for (const Fault& fault : kFastFaults) expect(fault, Mode::fast);
}

TEST_F(FindingsTest, NamesBothThreadsOfARace) {
  EXPECT_THAT(
      run("no_block_sync", Mode::checked),
      AllOf(HasSubstr("unsynchronised with the write by block 0 thread 0"), HasSubstr("[block 0 thread 1]")));
}

TEST_F(FindingsTest, RacesAreFoundInEveryOrderOfThreads) {
  for (const char* kernel : {"no_block_sync", "global_race", "no_grid_barrier", "no_warp_sync"}) {
    for (const ThreadOrder order : {ThreadOrder::forward, ThreadOrder::reverse, ThreadOrder::random}) {
      EXPECT_THAT(run(kernel, Mode::checked, Launch::ordinary, 2, order),
                  ::testing::AnyOf(HasSubstr("race: "), HasSubstr("uninitialised read")))
          << kernel;
    }
  }
}

TEST_F(FindingsTest, ARaceWithOneOfManyReadersIsFound) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    EXPECT_THAT(run("other_warp_reads", Mode::checked, Launch::ordinary, 1, ThreadOrder::random, seed),
                HasSubstr("race: "))
        << seed;
  }
}

TEST_F(FindingsTest, LaterLaunchesKnowWhatEarlierOnesHaveWritten) {
  ASSERT_EQ(run("first_half", Mode::checked), "no finding");
  EXPECT_EQ(run_again("reads_first_half", Mode::checked), "no finding");
  EXPECT_THAT(run_again("reads_second_half", Mode::checked),
              AllOf(HasSubstr("uninitialised read of global 'new' byte 256 of 1024"),
                    HasSubstr(line_of(kKernels, "reads_second_half"))));
}

TEST_F(FindingsTest, InAFastLaunchACopyThatWasNotWaitedForIsNotANumber) {
  ASSERT_EQ(run("no_copy_wait", Mode::fast), "no finding");
  EXPECT_TRUE(std::isnan(static_cast<const float*>(args_.tensor[1])[0]));
}

/// No finding by itself: the value spoils what it enters. GCC's pattern is -1.7e38, Clang's NaN.
TEST_F(FindingsTest, ARegisterThatNothingWasWrittenToHoldsNoLikelyValue) {
  ASSERT_EQ(run("uninitialised_register", Mode::checked), "no finding");
  const float x = static_cast<const float*>(args_.tensor[2])[0];
  EXPECT_FALSE(std::abs(x) < 1e30f) << x;
}

TEST_F(FindingsTest, CountsWhatNobodyHasWritten) {
  ASSERT_EQ(run("unwritten", Mode::checked), "no finding");
  EXPECT_EQ(memory_.unwritten(args_.tensor[2]), 128 * 4 + 2 * 4);  // two blocks of four; thread 5 of each
  EXPECT_EQ(memory_.unwritten(args_.tensor[1]), 0);                // the host's
}

TEST_F(FindingsTest, AWriteJustPastABufferIsSeenAfterAFastLaunch) {
  EXPECT_THAT(run("past_global", Mode::fast), ::testing::AnyOf(HasSubstr("out of bounds")));
}

TEST_F(FindingsTest, TheEmulatorWorksAfterAFinding) {
  for (const char* kernel : {"large_frame", "endless_loop", "null_pointer", "no_copy_wait"}) {
    EXPECT_NE(run(kernel, Mode::checked), "no finding") << kernel;
    EXPECT_EQ(run("unwritten", Mode::checked), "no finding") << "after " << kernel;
  }
}

}  // namespace
}  // namespace fusetune::backend::simt
