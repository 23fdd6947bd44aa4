#include "backend/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace fusetune::backend {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view name) {
  try {
    make_backend(name);
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Backends, EveryOneDescribesItself) {
  ASSERT_EQ(backends().size(), 3u);
  EXPECT_EQ(backends()[0].name, "cpu");
  for (const BackendInfo& backend : backends()) {
    EXPECT_FALSE(backend.description.empty()) << backend.name;
    EXPECT_NE(make_backend(backend.name), nullptr) << backend.name;
  }
}

TEST(Backends, AnUnknownNameSuggestsTheNearest) {
  EXPECT_THAT(refusal("cdua"), HasSubstr("did you mean 'cuda'?"));
}

TEST(CpuBackend, DescribesOneDevice) {
  const auto devices = make_backend("cpu")->devices();
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_FALSE(devices[0].name.empty());
  EXPECT_FALSE(devices[0].properties.empty());
}

TEST(CpuBackend, DoctorRunsAKernelHere) {
  bool tried = false;
  for (const Check& check : make_backend("cpu")->diagnose({})) {
    EXPECT_NE(check.status, Check::Status::missing) << check.what << ": " << check.detail;
    EXPECT_EQ(check.remedy.empty(), check.status == Check::Status::ok) << check.what;
    tried = tried || check.what == "compile, load and run a kernel";
  }
  EXPECT_TRUE(tried);
}

TEST(CpuBackend, DoctorNamesAMissingCompilerAndDoesNotThrow) {
  bool named = false;
  for (const Check& check : make_backend("cpu")->diagnose({.cxx = "no-such-compiler"})) {
    named = named || (check.status == Check::Status::missing &&
                      check.detail.find("no-such-compiler") != std::string::npos);
  }
  EXPECT_TRUE(named);
}

}  // namespace
}  // namespace fusetune::backend
