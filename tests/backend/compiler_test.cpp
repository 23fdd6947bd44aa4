#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/kernel_compiler.h"
#include "backend/test_kernels.h"
#include "base/error.h"
#include "base/file.h"

namespace fusetune::backend::cpu {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScopedVariable;
using ::testing::StartsWith;
using testing::write_script;

/// The message of the EnvironmentError that find_compiler(requested) throws.
std::string refusal(const std::string& requested) {
  try {
    find_compiler(requested);
  } catch (const base::EnvironmentError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FindCompiler, FindsTheSystemCompilerByItself) {
  const Compiler compiler = find_compiler("");
  EXPECT_THAT(compiler.path, StartsWith("/"));
  EXPECT_TRUE(compiler.kind == "gcc" || compiler.kind == "clang") << compiler.kind;
  EXPECT_THAT(compiler.version, HasSubstr("."));
  EXPECT_FALSE(compiler.banner.empty());
}

TEST(FindCompiler, AMissingOneIsNamedWithThePackageToInstall) {
  EXPECT_THAT(refusal("g++-none"), AllOf(HasSubstr("g++-none"), HasSubstr("not found"),
                                         HasSubstr("apt install g++"), HasSubstr("--cxx")));
  EXPECT_THAT(refusal("/nowhere/g++"), HasSubstr("/nowhere/g++"));
}

TEST(FindCompiler, WithoutAnyEveryNameThatWasTriedIsListed) {
  const base::TemporaryDirectory empty;
  const ScopedVariable path("PATH", empty.path().string());
  const ScopedVariable cxx("CXX", "my-compiler");
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("'my-compiler' not found"), HasSubstr("'c++' not found"),
                                 HasSubstr("'clang++' not found"), HasSubstr("'g++-12' not found")));
}

TEST(FindCompiler, AProgramThatIsNoCompilerIsRefusedByName) {
  const base::TemporaryDirectory directory;
  const std::string fake = write_script(directory.path() / "fake", "echo 'TurboThing 1.0'");
  EXPECT_THAT(refusal(fake), HasSubstr("neither GCC nor Clang (it says 'TurboThing 1.0')"));
  const std::string broken = write_script(directory.path() / "broken", "exit 1");
  EXPECT_THAT(refusal(broken), HasSubstr("does not answer --version"));
  const std::string old =
      write_script(directory.path() / "old",
                   "case $1 in --version) echo 'g++ 4.8 Free Software Foundation';; *) echo 4.8.5;; esac");
  EXPECT_THAT(refusal(old), HasSubstr("version '4.8.5', older than 10"));
}

TEST(FindCompiler, CxxVariableMayNameAWrapperAndACompiler) {
  const base::TemporaryDirectory directory;
  const std::string wrapper = write_script(directory.path() / "ccache", "echo 'ccache version 4.8'");
  const Compiler expected = testing::system_compiler();
  const ScopedVariable cxx("CXX", wrapper + " " + expected.path);
  EXPECT_EQ(find_compiler("").path, expected.path);
}

TEST(FindCompiler, APathWithSpacesAndOtherLettersWorks) {
  const base::TemporaryDirectory directory;
  const std::filesystem::path bin = directory.path() / "meine Übersetzer é";
  std::filesystem::create_directories(bin);
  const std::string wrapper =
      write_script(bin / "c plus plus", "exec " + testing::system_compiler().path + " \"$@\"\n");
  EXPECT_EQ(find_compiler(wrapper).path, wrapper);
  const ScopedVariable cxx("CXX", wrapper);
  EXPECT_EQ(find_compiler("").path, wrapper);
}

TEST(FindLinker, IsAnAbsoluteProgramOrNothing) {
  const std::string linker = find_linker(testing::system_compiler());
  EXPECT_THAT(linker, ::testing::AnyOf("", StartsWith("/")));
  const base::TemporaryDirectory empty;
  const ScopedVariable path("PATH", empty.path().string());
  const std::string silent = write_script(empty.path() / "silent", "exit 1");
  EXPECT_EQ(find_linker({.path = silent, .kind = "gcc", .version = "12.2.0", .banner = ""}), "");
}

TEST(CompileFlags, NeverFastMathNeverNative) {
  for (const char* kind : {"gcc", "clang"}) {
    for (const lower::Isa isa : {lower::Isa::generic, lower::Isa::avx2, lower::Isa::avx512}) {
      const auto flags = compile_flags({.path = "c++", .kind = kind, .version = "12", .banner = ""}, isa);
      EXPECT_THAT(flags, Not(Contains("-ffast-math")));
      EXPECT_THAT(flags, Not(Contains("-ffinite-math-only")));
      EXPECT_THAT(flags, Not(Contains(StartsWith("-march"))));
      EXPECT_THAT(flags, Contains("-fPIC"));
    }
  }
}

#if defined(__x86_64__)
TEST(CompileFlags, FeaturesAreThoseOfTheInstructionSet) {
  const Compiler compiler = testing::system_compiler();
  EXPECT_THAT(compile_flags(compiler, lower::Isa::generic), Not(Contains(StartsWith("-m"))));
  EXPECT_THAT(compile_flags(compiler, lower::Isa::avx2), AllOf(Contains("-mavx2"), Contains("-mfma")));
  EXPECT_THAT(compile_flags(compiler, lower::Isa::avx2), Not(Contains(StartsWith("-mavx512"))));
  EXPECT_THAT(compile_flags(compiler, lower::Isa::avx512),
              AllOf(Contains("-mfma"), Contains("-mavx512vl"), Contains("-mprefer-vector-width=512")));
}
#endif

}  // namespace
}  // namespace fusetune::backend::cpu
