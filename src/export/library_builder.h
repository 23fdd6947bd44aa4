// Compiles a bundle's sources into its library and its verify program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "export/bundle.h"

namespace fusetune::exporting {

struct BuildOptions {
  double timeout_seconds = 120;         // per compiler call
  std::int64_t memory_limit_bytes = 0;  // address space of one compiler; 0: none
  int jobs = 1;                         // compilers at once
  std::function<void()> poll;  // called between compilers; what it throws ends the work and passes through
};

/// Makes lib/libNAME.so and bin/NAME_verify of the sources in `bundle`, the same bytes for the same sources
/// and compiler. Throws base::EnvironmentError with the compiler's output.
void build_library(const std::filesystem::path& bundle, const BundleInput& input,
                   const BuildOptions& options);

/// Runs bin/NAME_verify and returns what it printed. Throws base::EnvironmentError, with that, where it does
/// not pass.
std::string run_verify_program(const std::filesystem::path& bundle, const BundleInput& input,
                               double timeout_seconds);

}  // namespace fusetune::exporting
