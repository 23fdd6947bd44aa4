// Several compilers at once, by a stand-in that only notes what it was given.
#include "export/library_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace fusetune::exporting {
namespace {

using testing::HasSubstr;

class LibraryBuilder : public testing::Test {
 protected:
  /// A bundle of twelve kernels, whose compiler refuses segment [5] where there is a file `refuse`.
  LibraryBuilder() {
    const std::filesystem::path compiler = directory_.path() / "c++";
    base::write_file_atomic(compiler, R"sh(#!/bin/sh
here=${0%/*}
for word; do
  case $word in
    */segment_5_5.cpp) if [ -e "$here/refuse" ]; then echo 'no such thing'; exit 1; fi ;;
  esac
  if [ "$before" = -c ]; then echo "$word" >> "$here/log"; fi
  before=$word
done
)sh");
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    input_.name = "enc";
    input_.toolchain.path = compiler.string();
    for (int i = 0; i < 12; ++i) {
      codegen::KernelSource& kernel = input_.kernels.emplace_back();
      kernel.variant = {{i, i}, false};
    }
  }
  std::filesystem::path log() const { return directory_.path() / "log"; }
  /// The sources, sorted.
  std::vector<std::string> compiled() const {
    std::vector<std::string> sources = base::split(base::trim(base::read_file(log())), '\n');
    std::sort(sources.begin(), sources.end());
    return sources;
  }

  base::TemporaryDirectory directory_;
  BundleInput input_;
};

TEST_F(LibraryBuilder, CompilesEverySourceOnceWhateverTheNumberOfThreads) {
  for (const int jobs : {1, 4, 40}) {
    std::filesystem::remove(log());
    build_library(directory_.path(), input_, {.jobs = jobs, .poll = {}});
    const std::vector<std::string> sources = compiled();
    EXPECT_EQ(sources.size(), 18u) << jobs;  // six of the runtime, and the kernels
    EXPECT_EQ(std::adjacent_find(sources.begin(), sources.end()), sources.end()) << jobs;
  }
}

TEST_F(LibraryBuilder, WhatOneCompilerSaysIsTheError) {
  base::write_file_atomic(directory_.path() / "refuse", "");
  try {
    build_library(directory_.path(), input_, {.jobs = 4, .poll = {}});
    ADD_FAILURE() << "it was built";
  } catch (const base::EnvironmentError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("compiling src/segment_5_5.cpp failed"),
                                             HasSubstr("no such thing")));
  }
}

TEST_F(LibraryBuilder, ThePollEndsTheWork) {
  struct GiveUp {};
  EXPECT_THROW(build_library(directory_.path(), input_, {.jobs = 3, .poll = [] { throw GiveUp{}; }}), GiveUp);
  EXPECT_FALSE(std::filesystem::exists(log()));
}

}  // namespace
}  // namespace fusetune::exporting
