#include "cli/recorded_file.h"

#include <fmt/core.h>

#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "store/json_lines.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGzipMark = "\x1f\x8b";

/// At most `size` bytes; fewer where the file is shorter or cannot be read.
std::string first_bytes(const std::string& file, std::size_t size) {
  std::string bytes(size, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

std::string unpack(const std::string& file) {
  const base::TemporaryDirectory directory;
  const fs::path packed = directory.path() / "unpacked.gz";
  base::write_file_atomic(packed, base::read_file(file));
  const base::ProcessResult result = base::run_process({"gzip", "--decompress", packed.string()});
  if (result.exit_code != 0)
    throw base::UsageError(fmt::format("{}: gzip cannot unpack it: {}", file, base::trim(result.output)));
  return base::read_file(directory.path() / "unpacked");
}

}  // namespace

std::string read_unpacked(const std::string& file) {
  return first_bytes(file, kGzipMark.size()) == kGzipMark ? unpack(file) : base::read_file(file);
}

bool is_recorded_lines(const std::string& file) {
  const std::string begin = first_bytes(file, 256);
  if (begin.starts_with(kGzipMark)) return true;
  const std::string first_line = begin.substr(0, begin.find('\n'));
  return base::trim(first_line).starts_with('{') &&
         first_line.find("\"fusetune records\"") != std::string::npos;
}

RecordedFile::RecordedFile(const std::string& file) : database_(file) {
  if (!is_recorded_lines(file)) return;
  int duplicates = 0;
  const store::Contents contents = store::parse_json_lines(read_unpacked(file), file, duplicates);
  database_ = directory_.emplace().path() / "recorded.db";
  store::TuningStore(database_).absorb(contents);
  if (duplicates > 0)
    base::note(
        fmt::format("note: {}: {} further lines of one candidate: the fastest counts", file, duplicates));
}

}  // namespace fusetune::cli
