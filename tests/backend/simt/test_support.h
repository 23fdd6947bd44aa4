// Kernels written out in a test, compiled for the emulator and launched.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "backend/simt/emulator.h"
#include "backend/simt/library_compiler.h"
#include "base/error.h"
#include "base/file.h"

namespace fusetune::backend::simt::testing {

inline const char* mode_name(Mode mode) { return mode == Mode::fast ? "fast" : "checked"; }

/// A translation unit: the platform, and `kernels`, whose first line findings call test.cu:1.
inline std::string unit_of(const std::string& kernels) {
  std::string text;
  for (const std::string name : {"cuda/abi.h", "cuda/platform_simt.h"}) {
    text += "#line 1 \"" + name + "\"\n" + base::read_file(FUSETUNE_SOURCE_DIR "/kernels/" + name);
  }
  return text + "#line 1 \"test.cu\"\nusing namespace ft;\n#line 1 \"test.cu\"\n" + kernels;
}

/// "test.cu:7" for the line of `kernels` that ends in "// <mark>".
inline std::string line_of(const std::string& kernels, const std::string& mark) {
  const std::size_t at = kernels.find("// " + mark + "\n");
  if (at == std::string::npos) throw base::InternalError("the kernels have no line marked " + mark);
  const auto lines = std::count(kernels.begin(), kernels.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  return "test.cu:" + std::to_string(lines + 1);
}

inline std::shared_ptr<const KernelLibrary> compile(const std::string& kernels, Mode mode) {
  LibraryCompiler compiler(cpu::find_compiler(""), mode, {});
  LibraryResult result = compiler.compile(unit_of(kernels));
  if (!result.library) throw base::EnvironmentError(result.log);
  return result.library;
}

/// The message of a finding, or "no finding".
inline std::string message_of(const std::optional<Finding>& finding) {
  return finding ? finding->message : "no finding";
}

#define FT_SKIP_WITHOUT_EMULATOR() \
  if (const std::string reason = unavailable_reason(); !reason.empty()) GTEST_SKIP() << reason

}  // namespace fusetune::backend::simt::testing
