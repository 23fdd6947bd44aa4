// The files of kernels/ and templates/, and those of src/ that bundles have too, embedded at build time by
// embed.cmake.
#pragma once

#include <span>
#include <string_view>

namespace fusetune::codegen {

struct EmbeddedFile {
  std::string_view path;  // relative to kernels/, templates/ or src/, e.g. "cpu/gemm.h"
  std::string_view text;
};
std::span<const EmbeddedFile> embedded_files();

}  // namespace fusetune::codegen
