// A bundle on disk: its directory and its archive, whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "export/bundle.h"
#include "export/cuda_bundle.h"
#include "export/library_builder.h"

namespace fusetune::exporting {

/// What is held, for as long as it lives, so that nothing disturbs what another process times.
using Turn = std::shared_ptr<const void>;

struct WriteOptions {
  std::filesystem::path directory;  // --out
  bool archive = true;              // also DIRECTORY.tar.gz
  bool force = false;               // replace an earlier bundle
  double verify_timeout_seconds = 60;
  BuildOptions build;
  std::function<Turn()> turn_to_compile, turn_to_time;  // waited for; none: at once
};

/// Call it before long work: the destination may be written, and tar and gzip are there if they are needed.
/// Throws base::UsageError where something else is in the way, base::EnvironmentError where a tool is
/// missing.
void check_destination(const WriteOptions& options);

/// Writes, compiles and verifies the bundle beside its destination, then moves it there. Returns what the
/// bundle's verify program printed. Throws base::EnvironmentError; an earlier bundle is then intact and
/// nothing new is left.
std::string write_bundle(const BundleInput& input, const WriteOptions& options);

/// The same for a GPU, which is neither compiled nor run here: that takes CMake and the GPU.
void write_bundle(const CudaBundleInput& input, const WriteOptions& options);

/// Where the archive goes: DIRECTORY.tar.gz.
std::filesystem::path archive_path(const std::filesystem::path& directory);

}  // namespace fusetune::exporting
