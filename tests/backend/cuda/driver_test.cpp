// Contexts, memory, launches and errors, on the fake driver.
#include "backend/cuda/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "installed_nvrtc.h"

namespace fusetune::backend::cuda {
namespace {

using ::testing::HasSubstr;

class DriverCalls : public ::testing::Test {
 protected:
  ScopedVariable small_{"FUSETUNE_FAKE_DRIVER", "small"};
  Context context_{Driver(FAKE_DRIVER)};
};

TEST_F(DriverCalls, AContextKnowsItsDevice) {
  EXPECT_EQ(context_.device().name, "Fake H100");
  EXPECT_THROW(Context(Driver(FAKE_DRIVER), 7), base::EnvironmentError);
}

TEST_F(DriverCalls, MemoryHoldsWhatIsWritten) {
  const std::vector<int> numbers = {3, 1, 4, 1, 5};
  const auto bytes = static_cast<std::int64_t>(numbers.size() * sizeof(int));
  DeviceBuffer first(context_, bytes), second(context_, bytes);
  first.write(numbers.data(), bytes);
  second.copy_from(first);
  std::vector<int> back(numbers.size());
  second.read(back.data(), bytes);
  EXPECT_EQ(back, numbers);
  second.fill(0xff);
  second.read(back.data(), bytes);
  EXPECT_EQ(back, std::vector<int>(numbers.size(), -1));
  EXPECT_THROW(second.read(back.data(), bytes + 1), base::InternalError);
  const DeviceBuffer moved = std::move(first);
  EXPECT_EQ(moved.bytes(), bytes);
  EXPECT_EQ(DeviceBuffer(context_, 0).address(), 0u);
}

TEST_F(DriverCalls, AnErrorNamesTheCallAndTheReason) {
  try {
    context_.driver().check(700, "cuLaunchKernel");
    FAIL() << "no error";
  } catch (const DriverError& error) {
    EXPECT_EQ(error.code, 700);
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("cuLaunchKernel"), HasSubstr("ILLEGAL_ADDRESS"),
                                               HasSubstr("illegal memory access")));
  }
}

TEST_F(DriverCalls, AnImageThatIsNoneIsRefused) {
  EXPECT_THROW(Module(context_, std::string(1000, 'x')), DriverError);
}

TEST_F(DriverCalls, EventsTellTime) {
  Event begin(context_), end(context_);
  begin.record();
  end.record();
  end.wait();
  EXPECT_GE(end.since(begin), 0);
}

}  // namespace
}  // namespace fusetune::backend::cuda
