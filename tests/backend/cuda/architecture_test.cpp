#include "backend/cuda/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  try {
    parse_architecture(text);
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Architecture, ReadsWhatItWrites) {
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120", "sm_120a"})
    EXPECT_EQ(parse_architecture(name).name(), name);
  EXPECT_EQ(parse_architecture("90a"), (Architecture{90, true}));
}

TEST(Architecture, OldOnesAreRefusedWithTheReason) {
  for (const char* name : {"sm_75", "sm_70", "61"})
    EXPECT_THAT(refusal(name), AllOf(HasSubstr(name), HasSubstr("cp.async"), HasSubstr("bf16")));
}

TEST(Architecture, WhatIsNoneIsRefused) {
  for (const char* name :
       {"", "sm_", "sm_x", "sm_8", "sm_8000", "sm_-80", "sm_ 80", "sm_9.0", "sm_90b", "gfx90a"})
    EXPECT_THAT(refusal(name), HasSubstr("expected sm_")) << name;
  EXPECT_THAT(refusal("sm_80a"), HasSubstr("from sm_90 on"));
}

TEST(Architecture, OfferedAreThoseThatTheCompilerListsFromSm80On) {
  const std::vector<int> numbers = {75, 80, 86, 90, 120};
  EXPECT_THAT(
      supported_architectures(numbers),
      ::testing::ElementsAre(Architecture{80}, Architecture{86}, Architecture{90, true}, Architecture{120}));
  EXPECT_NO_THROW(check_supported({90, false}, numbers));
  EXPECT_NO_THROW(check_supported({120, true}, numbers));
  try {
    check_supported({100, false}, numbers);
    FAIL() << "sm_100 was accepted";
  } catch (const base::UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("sm_100"), HasSubstr("sm_80, sm_86, sm_90a, sm_120")));
  }
}

TEST(Architecture, LimitsAreThoseOfTheProgrammingGuide) {
  EXPECT_EQ(limits({80}).shared_bytes_per_block, 163 * 1024);
  EXPECT_EQ(limits({86}).shared_bytes_per_block, 99 * 1024);
  EXPECT_EQ(limits({89}).shared_bytes_per_block, 99 * 1024);
  EXPECT_EQ(limits({90, true}).shared_bytes_per_block, 227 * 1024);
  EXPECT_EQ(limits({100}).shared_bytes_per_block, 227 * 1024);
  EXPECT_EQ(limits({120}).shared_bytes_per_block, 99 * 1024);
  EXPECT_EQ(limits({90, true}), limits({90, false}));
}

TEST(Architecture, AnUnknownOneGetsTheSmallestLimits) {
  const ArchitectureLimits unknown = limits({150});
  EXPECT_FALSE(unknown.known);
  for (const int number : {80, 86, 89, 90, 100, 103, 120}) {
    const ArchitectureLimits known = limits({number});
    EXPECT_TRUE(known.known);
    EXPECT_EQ(known.shared_bytes_per_multiprocessor, known.shared_bytes_per_block + kReservedSharedBytes);
    EXPECT_LE(unknown.shared_bytes_per_block, known.shared_bytes_per_block);
    EXPECT_LE(unknown.threads_per_multiprocessor, known.threads_per_multiprocessor);
    EXPECT_LE(unknown.blocks_per_multiprocessor, known.blocks_per_multiprocessor);
  }
}

TEST(Architecture, ADeviceGetsItsOwnOrTheNewestOlderOneOfItsGeneration) {
  const std::vector<int> numbers = {75, 80, 86, 90, 120};
  EXPECT_EQ(architecture_of_device(80, numbers), (Architecture{80}));
  EXPECT_EQ(architecture_of_device(90, numbers), (Architecture{90, true}));
  EXPECT_EQ(architecture_of_device(89, numbers), (Architecture{86}));  // runs 8.6's images
  EXPECT_EQ(architecture_of_device(121, numbers), (Architecture{120}));
}

TEST(Architecture, ADeviceThatNothingCanBeCompiledForIsRefusedWithTheReason) {
  const std::vector<int> numbers = {80, 90};
  const auto reason = [&](int capability) {
    try {
      architecture_of_device(capability, numbers);
    } catch (const base::EnvironmentError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(reason(75), AllOf(HasSubstr("7.5"), HasSubstr("too old")));
  EXPECT_THAT(reason(100), AllOf(HasSubstr("10.0"), HasSubstr("newer CUDA toolkit")));
  EXPECT_THAT(reason(91), HasSubstr("newer CUDA toolkit"));  // sm_90a's images run on 9.0 alone
}

}  // namespace
}  // namespace fusetune::backend::cuda
