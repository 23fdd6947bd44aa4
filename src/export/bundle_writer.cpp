#include "export/bundle_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "export/manifest.h"

namespace fusetune::exporting {
namespace {

namespace fs = std::filesystem;

constexpr double kToolSeconds = 300;

/// The path without a slash at its end, which would make it a directory without a name.
fs::path normal(const fs::path& directory) {
  const fs::path path = fs::absolute(directory).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

base::ProcessResult run_tool(const std::vector<std::string>& command) {
  return base::run_process(command, {.timeout_seconds = kToolSeconds, .memory_limit_bytes = 0, .input = {}});
}

/// Throws base::EnvironmentError unless `command` runs and says `word`.
void require_tool(const std::vector<std::string>& command, const std::string& word,
                  const std::string& package) {
  std::string found;
  try {
    const base::ProcessResult result = run_tool(command);
    if (result.exit_code == 0 && result.output.find(word) != std::string::npos) return;
    found = "is another program";
  } catch (const base::EnvironmentError& error) {
    found = error.what();
  }
  throw base::EnvironmentError(fmt::format(
      "the archive of a bundle is made with {}, which is not here ({}): install {}, or export with "
      "--no-archive",
      package, found, package));
}

/// A directory beside the destination, on the same file system, that disappears unless it was emptied.
class Staging {
 public:
  explicit Staging(const fs::path& destination) {
    std::error_code error;
    fs::create_directories(destination.parent_path(), error);
    if (error)
      throw base::EnvironmentError(
          fmt::format("cannot create {}: {}", destination.parent_path().string(), error.message()));
    std::string name =
        (destination.parent_path() / ("." + destination.filename().string() + ".XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr)
      throw base::EnvironmentError(fmt::format("cannot create a directory in {}: {}",
                                               destination.parent_path().string(), std::strerror(errno)));
    path_ = name;
  }
  ~Staging() {
    std::error_code error;
    fs::remove_all(path_, error);
    if (error) base::note(fmt::format("note: cannot remove {}: {}", path_.string(), error.message()));
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_files(const fs::path& directory, const Files& files) {
  for (const auto& [path, content] : files) {
    const fs::path file = directory / path;
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    if (error)
      throw base::EnvironmentError(
          fmt::format("cannot create {}: {}", file.parent_path().string(), error.message()));
    base::write_file_atomic(file, content);
  }
}

/// tar sorts names and gets fixed times and owners, gzip no time: the same bundle gives the same bytes.
void make_archive(const Staging& staging, const std::string& name) {
  const std::string tar = (staging / (name + ".tar")).string();
  const base::ProcessResult packed =
      run_tool({"tar", "--create", "--format=ustar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0",
                "--numeric-owner", "--mode=u=rwX,go=rX", "--file=" + tar,
                "--directory=" + staging.path().string(), name});
  if (packed.exit_code != 0) throw base::EnvironmentError("tar cannot pack the bundle: " + packed.output);
  const base::ProcessResult zipped = run_tool({"gzip", "--no-name", "--best", tar});
  if (zipped.exit_code != 0)
    throw base::EnvironmentError("gzip cannot compress the bundle: " + zipped.output);
}

/// `from` takes the place of `to`; what was there goes into the staging directory, to be removed with it.
void replace(const fs::path& from, const fs::path& to, const fs::path& aside) {
  std::error_code error;
  const bool there = fs::exists(fs::symlink_status(to, error));
  error.clear();
  if (there) fs::rename(to, aside, error);
  if (!error) {
    fs::rename(from, to, error);
    if (!error) return;
    std::error_code ignored;
    if (there) fs::rename(aside, to, ignored);
  }
  throw base::EnvironmentError(fmt::format("cannot write {}: {}", to.string(), error.message()));
}

bool is_bundle(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::is_regular_file(directory / "manifest.json", ignored)) return false;
  return base::read_file(directory / "manifest.json").find("\"bundle_format\"") != std::string::npos;
}

void check_directory(const fs::path& directory, bool force) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(directory, error);
  if (!fs::exists(status)) return;
  const std::string name = directory.string();
  if (!fs::is_directory(status))
    throw base::UsageError(fmt::format("--out {}: something that is no directory is there", name));
  if (fs::is_empty(directory, error) && !error) return;
  if (!force)
    throw base::UsageError(fmt::format("--out {}: it is not empty; --force replaces a bundle", name));
  if (!is_bundle(directory))
    throw base::UsageError(
        fmt::format("--out {}: it is not empty and no bundle, so it is not replaced", name));
}

/// Reads back what the compiler made, for the hashes.
void add_built(const fs::path& directory, const std::string& path, Files& files) {
  files[path] = base::read_file(directory / path);
}

}  // namespace

fs::path archive_path(const fs::path& directory) {
  fs::path archive = normal(directory);
  archive += ".tar.gz";
  return archive;
}

void check_destination(const WriteOptions& options) {
  const fs::path directory = normal(options.directory);
  check_directory(directory, options.force);
  if (!options.archive) return;
  std::error_code ignored;
  const fs::path archive = archive_path(directory);
  const fs::file_status status = fs::symlink_status(archive, ignored);
  if (fs::exists(status) && (!options.force || !fs::is_regular_file(status)))
    throw base::UsageError(fmt::format("{} exists; {}", archive.string(),
                                       options.force ? "it is no file, so it is not replaced"
                                                     : "--force replaces it, --no-archive does without"));
  require_tool({"tar", "--version"}, "GNU tar", "GNU tar");
  require_tool({"gzip", "--version"}, "gzip", "gzip");
}

namespace {

std::string build_and_verify(const fs::path& bundle, const BundleInput& input, const WriteOptions& options) {
  {
    const Turn turn = options.turn_to_compile ? options.turn_to_compile() : Turn();
    build_library(bundle, input, options.build);
  }
  const Turn turn = options.turn_to_time ? options.turn_to_time() : Turn();
  return run_verify_program(bundle, input, options.verify_timeout_seconds);
}

void poll(const WriteOptions& options) {
  if (options.build.poll) options.build.poll();
}

/// Writes `files` beside the destination, has `finish` add what is made of them and the manifest, and moves
/// all of it there. Returns what `finish` does.
std::string write_whole(const BundleOrigin& origin, Files files, const WriteOptions& options,
                        const std::function<std::string(const fs::path& bundle, Files&)>& finish) {
  poll(options);
  const fs::path directory = normal(options.directory);
  const Staging staging(directory);
  const fs::path bundle = staging / origin.name;
  write_files(bundle, files);
  std::string verdict = finish(bundle, files);
  const Files last = {{"manifest.json", files["manifest.json"]}, {"SHA256SUMS", checksums_text(files)}};
  write_files(bundle, last);
  if (options.archive) make_archive(staging, origin.name);
  poll(options);
  if (options.archive)
    replace(staging / (origin.name + ".tar.gz"), archive_path(directory), staging / "old.tar.gz");
  replace(bundle, directory, staging / "old");
  return verdict;
}

}  // namespace

std::string write_bundle(const BundleInput& input, const WriteOptions& options) {
  check_destination(options);
  return write_whole(input, bundle_sources(input), options, [&](const fs::path& bundle, Files& files) {
    std::string verdict = build_and_verify(bundle, input, options);
    poll(options);
    add_built(bundle, "lib/lib" + input.name + ".so", files);
    add_built(bundle, "bin/" + input.name + "_verify", files);
    files["manifest.json"] = manifest_text(input, files);
    return verdict;
  });
}

void write_bundle(const CudaBundleInput& input, const WriteOptions& options) {
  check_destination(options);
  write_whole(input, bundle_sources(input), options, [&](const fs::path& /*bundle*/, Files& files) {
    files["manifest.json"] = manifest_text(input, files);
    return std::string();
  });
}

}  // namespace fusetune::exporting
