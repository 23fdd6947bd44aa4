#include "backend/cuda/nvrtc.h"

#include <gmock/gmock.h>

#include <fstream>

#include "backend/cuda/architecture.h"
#include "installed_nvrtc.h"

namespace fusetune::backend::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string failure(const std::string& library) {
  try {
    const Nvrtc nvrtc{std::filesystem::path(library)};
  } catch (const base::EnvironmentError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Nvrtc, APathThatWasSetIsTheOnlyOneTried) {
  const ScopedVariable chosen("FUSETUNE_NVRTC", "/no/such/libnvrtc.so");
  try {
    const Nvrtc nvrtc;
    FAIL() << "opened " << nvrtc.library();
  } catch (const base::EnvironmentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("FUSETUNE_NVRTC"), HasSubstr("/no/such/libnvrtc.so")));
  }
}

TEST(Nvrtc, ALibraryThatIsMissingBrokenOrAnotherIsNamedWithTheReason) {
  EXPECT_THAT(failure("/no/such/libnvrtc.so"), HasSubstr("/no/such/libnvrtc.so"));
  const base::TemporaryDirectory directory;
  const std::string broken = directory.path() / "libnvrtc.so";
  std::ofstream(broken) << "no library";
  EXPECT_THAT(failure(broken), HasSubstr(broken));
  EXPECT_THAT(failure(FAKE_DRIVER), AllOf(HasSubstr("nvrtc"), HasSubstr("CUDA 12 or newer")));
}

TEST(Nvrtc, PlacesAreTheLoadersTheToolkitsAndPythons) {
  const base::TemporaryDirectory root;
  const auto wheel = root.path() / "venv/lib/python3.11/site-packages/nvidia/cu13/lib";
  const auto toolkit = root.path() / "cuda/lib64";
  std::filesystem::create_directories(wheel);
  std::filesystem::create_directories(toolkit);
  base::write_file_atomic(wheel / "libnvrtc.so.13", "");
  base::write_file_atomic(toolkit / "libnvrtc.so", "");
  const ScopedVariable chosen("FUSETUNE_NVRTC", "");
  const ScopedVariable cuda("CUDA_HOME", root.path() / "cuda");
  const ScopedVariable python("VIRTUAL_ENV", root.path() / "venv");
  const auto places = nvrtc_places();
  EXPECT_EQ(places.front(), "libnvrtc.so.13");
  EXPECT_THAT(places, ::testing::IsSupersetOf({toolkit / "libnvrtc.so", wheel / "libnvrtc.so.13",
                                               std::filesystem::path("/usr/local/cuda/lib64/libnvrtc.so")}));
}

TEST(Nvrtc, AMissingOneSaysHowToGetIt) {
  const ScopedVariable any("FUSETUNE_NVRTC", "");
  std::string reason;
  if (installed_nvrtc(reason)) GTEST_SKIP() << "NVRTC is installed";
  EXPECT_THAT(reason, AllOf(HasSubstr("libnvrtc.so.13"), HasSubstr("/usr/local/cuda"),
                            HasSubstr("nvidia-cuda-nvrtc"), HasSubstr("FUSETUNE_NVRTC")));
}

class InstalledNvrtc : public CompilingTest {};

TEST_F(InstalledNvrtc, TellsItsVersionArchitecturesAndFile) {
  EXPECT_GE(nvrtc->major(), 12);
  EXPECT_EQ(nvrtc->version(), std::to_string(nvrtc->major()) + "." + std::to_string(nvrtc->minor()));
  EXPECT_TRUE(std::filesystem::is_regular_file(nvrtc->library())) << nvrtc->library();
  EXPECT_THAT(nvrtc->identity(), HasSubstr(nvrtc->version()));
  EXPECT_THAT(nvrtc->architectures(), ::testing::IsSupersetOf({80, 86, 89, 90}));
  for (const Architecture& one : supported_architectures(nvrtc->architectures()))
    EXPECT_NO_THROW(check_supported(one, nvrtc->architectures()));
}

TEST_F(InstalledNvrtc, OpensByItsPath) {
  const Nvrtc again{nvrtc->library()};
  EXPECT_EQ(again.identity(), nvrtc->identity());
  const ScopedVariable chosen("FUSETUNE_NVRTC", nvrtc->library());
  EXPECT_EQ(Nvrtc().library(), nvrtc->library());
}

// The rest of the program works where there is no CUDA: no other folder may name its libraries or functions.
TEST(Nvrtc, OnlyThisFolderKnowsCudaLibraries) {
  const std::filesystem::path source = std::filesystem::path(FUSETUNE_SOURCE_DIR) / "src";
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source)) {
    const std::string path = std::filesystem::relative(entry.path(), source).generic_string();
    if (!entry.is_regular_file() || path.starts_with("backend/cuda/")) continue;
    const std::string text = base::read_file(entry.path());
    ++files;
    for (const char* name : {"libnvrtc", "nvrtcC", "nvrtcG", "libcuda", "cuInit", "cuModule", "cuLaunch"})
      EXPECT_EQ(text.find(name), std::string::npos) << path << " names " << name;
  }
  EXPECT_GT(files, 50);
}

}  // namespace
}  // namespace fusetune::backend::cuda
