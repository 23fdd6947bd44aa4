#include "backend/cuda/ptxas_log.h"

#include <algorithm>
#include <charconv>

namespace fusetune::backend::cuda {
namespace {

/// The text between `before` and the next quote.
std::optional<std::string_view> quoted_after(std::string_view line, std::string_view before) {
  const std::size_t at = line.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + before.size());
  return rest.substr(0, rest.find('\''));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The number before `what`: 14 of "Used 14 registers, ..." before " registers"; 0 where it is not said.
std::int64_t number_before(std::string_view line, std::string_view what) {
  const std::size_t end = line.find(what);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && is_digit(line[begin - 1])) --begin;
  std::int64_t number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

/// The sum over all banks: "672 bytes cmem[0], 8 bytes cmem[2]".
std::int64_t constant_bytes(std::string_view line) {
  constexpr std::string_view what = " bytes cmem[";
  std::int64_t sum = 0;
  for (std::size_t at = line.find(what); at != std::string_view::npos; at = line.find(what)) {
    sum += number_before(line, what);
    line.remove_prefix(at + what.size());
  }
  return sum;
}

}  // namespace

// One kernel's part of the log; newer assemblers add "used 1 barriers" and "bytes cumulative stack size":
//
//     ptxas info    : Compiling entry function 'probe' for 'sm_90a'
//     ptxas info    : Function properties for probe
//     ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//     ptxas info    : Used 14 registers, used 1 barriers, 672 bytes cmem[0]
std::optional<KernelResources> parse_ptxas_log(std::string_view log, std::string_view symbol) {
  KernelResources resources;
  bool inside = false;
  bool complete = false;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (const auto entry = quoted_after(line, "Compiling entry function '")) inside = *entry == symbol;
    if (!inside) continue;
    if (line.find(" bytes stack frame") != std::string_view::npos) {
      resources.stack_frame_bytes =
          std::max(resources.stack_frame_bytes, number_before(line, " bytes stack frame"));
      resources.spill_store_bytes += number_before(line, " bytes spill stores");
      resources.spill_load_bytes += number_before(line, " bytes spill loads");
    } else if (line.find("Used ") != std::string_view::npos &&
               line.find(" registers") != std::string_view::npos) {
      resources.registers = static_cast<int>(number_before(line, " registers"));
      resources.barriers = static_cast<int>(number_before(line, " barriers"));
      resources.stack_frame_bytes =
          std::max(resources.stack_frame_bytes, number_before(line, " bytes cumulative stack size"));
      resources.static_shared_bytes = number_before(line, " bytes smem");
      resources.constant_bytes = constant_bytes(line);
      complete = true;
    }
  }
  if (!complete) return std::nullopt;
  return resources;
}

}  // namespace fusetune::backend::cuda
