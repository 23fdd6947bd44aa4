#include "store/process_identity.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "base/text.h"

namespace fusetune::store {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  char target[256];
  const ssize_t length = readlink(path, target, sizeof target);
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : "?";
}

/// Clock tick since boot at which the process started (field 22 of /proc/PID/stat); empty: no such process,
/// or one that has ended and only waits to be collected.
std::string start_time(const std::string& pid) {
  const std::string stat = first_line("/proc/" + pid + "/stat");
  // The command name is in parentheses and may hold anything, spaces and parentheses included.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  const std::vector<std::string> fields =
      base::split(base::trim(std::string_view(stat).substr(name_end + 1)), ' ');
  constexpr std::size_t kState = 0, kStartTime = 19;
  if (fields.size() <= kStartTime || fields[kState] == "Z" || fields[kState] == "X") return {};
  return fields[kStartTime];
}

std::string boot() {
  const std::string id = first_line("/proc/sys/kernel/random/boot_id");
  return id.empty() ? "?" : id;
}

}  // namespace

std::string this_process() {
  const std::string pid = std::to_string(getpid());
  return boot() + "/" + link_target("/proc/self/ns/pid") + "/" + pid + "/" + start_time(pid);
}

Life life_of(std::string_view process) {
  const std::vector<std::string> parts = base::split(process, '/');
  if (parts.size() != 4 || parts[0] == "?" || parts[1] == "?") return Life::unknown;
  if (parts[0] != boot() || parts[1] != link_target("/proc/self/ns/pid")) return Life::unknown;
  return start_time(parts[2]) == parts[3] && !parts[3].empty() ? Life::alive : Life::dead;
}

}  // namespace fusetune::store
