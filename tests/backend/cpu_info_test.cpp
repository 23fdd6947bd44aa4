#include "backend/cpu/cpu_info.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "backend/cpu/cgroup.h"
#include "base/file.h"

namespace fusetune::backend::cpu {
namespace {

namespace fs = std::filesystem;

TEST(CpuInfo, DescribesThisMachine) {
  const CpuInfo cpu = probe_cpu();
  EXPECT_FALSE(cpu.model.empty());
  EXPECT_GE(cpu.cpus, 1);
  EXPECT_GT(cpu.memory_bytes, std::int64_t{1} << 26);
  EXPECT_GE(cpu.l2_bytes, 0);
  EXPECT_TRUE(supports(cpu, lower::Isa::generic));
}

TEST(CpuInfo, AgreesWithTheFeaturesThatTheKernelLists) {
  const CpuInfo cpu = probe_cpu();
  const auto has = [&](const char* feature) {
    return std::find(cpu.features.begin(), cpu.features.end(), feature) != cpu.features.end();
  };
  EXPECT_EQ(supports(cpu, lower::Isa::avx2), has("avx2") && has("fma") && has("f16c") && has("bmi2"));
  EXPECT_EQ(supports(cpu, lower::Isa::avx512), supports(cpu, lower::Isa::avx2) && has("avx512f") &&
                                                   has("avx512bw") && has("avx512dq") && has("avx512vl") &&
                                                   has("avx512cd"));
}

TEST(CpuInfo, ALowerInstructionSetIsSupportedByABetterCpu) {
  CpuInfo cpu;
  cpu.best_isa = lower::Isa::avx2;
  EXPECT_TRUE(supports(cpu, lower::Isa::generic));
  EXPECT_TRUE(supports(cpu, lower::Isa::avx2));
  EXPECT_FALSE(supports(cpu, lower::Isa::avx512));
}

TEST(CpuInfo, CountsOnlyCpusOfTheAffinityMask) {
  int counted = 0;
  std::thread([&] {  // a thread of its own: the mask ends with it
    cpu_set_t set, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    counted = probe_cpu().cpus;
  })
      .join();
  EXPECT_EQ(counted, 1);
}

class Cgroup : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_.path() / file).parent_path());
    base::write_file_atomic(root_.path() / file, text);
  }
  CgroupLimits read(const std::string& membership) { return read_cgroup_limits(root_.path(), membership); }

  base::TemporaryDirectory root_;
};

TEST_F(Cgroup, Version2TakesTheTightestLimitOfAllAncestors) {
  write("cpu.max", "max 100000\n");
  write("a/cpu.max", "150000 100000\n");
  write("a/b/cpu.max", "400000 100000\n");
  write("a/memory.max", "max\n");
  write("a/b/memory.max", "1073741824\n");
  const CgroupLimits limits = read("0::/a/b\n");
  ASSERT_TRUE(limits.cpus);
  EXPECT_DOUBLE_EQ(*limits.cpus, 1.5);
  ASSERT_TRUE(limits.memory_bytes);
  EXPECT_EQ(*limits.memory_bytes, 1073741824);
}

TEST_F(Cgroup, Version1ReadsItsOwnControllers) {
  write("cpu/job/cpu.cfs_quota_us", "50000\n");
  write("cpu/job/cpu.cfs_period_us", "100000\n");
  write("memory/job/memory.limit_in_bytes", "536870912\n");
  const CgroupLimits limits = read("4:cpu,cpuacct:/job\n3:memory:/job\n2:pids:/job\n");
  ASSERT_TRUE(limits.cpus);
  EXPECT_DOUBLE_EQ(*limits.cpus, 0.5);
  EXPECT_EQ(limits.memory_bytes, 536870912);
}

TEST_F(Cgroup, UnlimitedMissingAndMalformedMeanNoLimit) {
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  write("cpu.max", "garbage\n");
  for (const char* membership : {"", "0::/\n", "1:cpu:/\n", "0::/not/mounted/here\n", "no colons", "5:\n"}) {
    const CgroupLimits limits = read(membership);
    EXPECT_FALSE(limits.cpus) << membership;
    EXPECT_FALSE(limits.memory_bytes) << membership;
  }
}

TEST_F(Cgroup, APathOutsideTheMountFallsBackToTheMountPoint) {
  write("cpu.max", "200000 100000\n");
  const CgroupLimits limits = read("0::/system.slice/of-the-host\n");
  ASSERT_TRUE(limits.cpus);
  EXPECT_DOUBLE_EQ(*limits.cpus, 2);
}

}  // namespace
}  // namespace fusetune::backend::cpu
