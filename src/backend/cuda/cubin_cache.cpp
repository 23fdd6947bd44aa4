#include "backend/cuda/cubin_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <string_view>
#include <system_error>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"

namespace fusetune::backend::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "fusetune-cubin-1 ";
constexpr std::size_t kHashDigits = 32;

/// "fusetune-cubin-1 <hash of the rest>\n<bytes of the log>\n<log><image>"
std::string written(const CubinEntry& entry) {
  const std::string rest = std::to_string(entry.log.size()) + "\n" + entry.log + entry.cubin;
  return std::string(kMagic) + base::hash_hex(rest) + "\n" + rest;
}

std::optional<CubinEntry> parsed(std::string_view file) {
  if (!file.starts_with(kMagic) || file.size() < kMagic.size() + kHashDigits + 1) return std::nullopt;
  const std::string_view hash = file.substr(kMagic.size(), kHashDigits);
  std::string_view rest = file.substr(kMagic.size() + kHashDigits + 1);
  if (base::hash_hex(rest) != hash) return std::nullopt;
  std::size_t log_bytes = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), log_bytes);
  if (error != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
  if (log_bytes > rest.size()) return std::nullopt;
  return CubinEntry{std::string(rest.substr(0, log_bytes)), std::string(rest.substr(log_bytes))};
}

void note_once(const std::string& line) {
  static std::atomic_flag said;
  if (!said.test_and_set()) base::note(line);
}

}  // namespace

std::optional<CubinEntry> CubinCache::find(const std::string& key) const {
  if (directory_.empty()) return std::nullopt;
  const fs::path file = directory_ / "cubins" / key;
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  try {
    return parsed(base::read_file(file));
  } catch (const base::EnvironmentError&) {  // unreadable, or just removed: compile again
    return std::nullopt;
  }
}

void CubinCache::store(const std::string& key, const CubinEntry& entry) const {
  if (directory_.empty()) return;
  write(directory_ / "cubins" / key, written(entry));
}

void CubinCache::state(const CompilerRelease& release) const {
  if (directory_.empty()) return;
  const std::string text = release.to_text();
  const fs::path file = directory_ / "compilers" / base::hash_hex(text);
  std::error_code error;
  if (!fs::exists(file, error)) write(file, text);
}

std::vector<CompilerRelease> CubinCache::compilers() const {
  std::vector<CompilerRelease> releases;
  if (directory_.empty()) return releases;
  std::error_code error;
  for (auto entry = fs::directory_iterator(directory_ / "compilers", error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    try {
      if (auto release = CompilerRelease::parse(base::read_file(entry->path())))
        releases.push_back(std::move(*release));
    } catch (const base::EnvironmentError&) {  // unreadable: as if it were not there
    }
  }
  const auto order = [](const CompilerRelease& one) { return std::tie(one.major, one.minor, one.identity); };
  std::sort(releases.begin(), releases.end(),
            [&](const CompilerRelease& a, const CompilerRelease& b) { return order(a) > order(b); });
  return releases;
}

void CubinCache::write(const fs::path& file, const std::string& text) const {
  std::error_code ignored;  // what it means shows when the file is written
  fs::create_directories(file.parent_path(), ignored);
  try {
    base::write_file_atomic(file, text);
  } catch (const base::EnvironmentError& error) {
    note_once("note: compiled CUDA kernels are not kept: " + std::string(error.what()) +
              "; set FUSETUNE_CACHE_DIR to a writable directory to keep them");
  }
}

fs::path CubinCache::save_failed_source(const std::string& symbol, const std::string& text) const {
  std::error_code error;
  fs::path folder = directory_ / "failed";
  if (directory_.empty())
    folder = fs::temp_directory_path(error) / ("fusetune-failed-" + std::to_string(geteuid()));
  fs::create_directories(folder, error);
  try {
    fs::path file = folder / (symbol + ".cu");
    base::write_file_atomic(file, text);
    return file;
  } catch (const base::EnvironmentError&) {
    return {};
  }
}

}  // namespace fusetune::backend::cuda
