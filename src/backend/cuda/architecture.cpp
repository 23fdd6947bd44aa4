#include "backend/cuda/architecture.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

constexpr int kOldest = 80;
constexpr int kFirstSpecific = 90;  // the suffix a exists from here on
constexpr std::int64_t kKiB = 1024;

/// Rows of "Technical specifications per compute capability" in the CUDA programming guide: shared memory per
/// block and per multiprocessor in KiB, resident threads and blocks per multiprocessor. The rest is the same
/// for all: 64 K registers, 255 a thread, 1024 threads a block.
struct Row {
  int number;
  int shared_per_block;
  int shared_per_multiprocessor;
  int threads;
  int blocks;
};
constexpr std::array<Row, 10> kTable = {{
    {80, 163, 164, 2048, 32},
    {86, 99, 100, 1536, 16},
    {87, 163, 164, 1536, 16},
    {89, 99, 100, 1536, 24},
    {90, 227, 228, 2048, 32},
    {100, 227, 228, 2048, 32},
    {103, 227, 228, 2048, 32},
    {110, 227, 228, 1536, 24},
    {120, 99, 100, 1536, 24},
    {121, 99, 100, 1536, 24},
}};

[[noreturn]] void refuse(std::string_view text, const std::string& reason) {
  throw base::UsageError("GPU architecture '" + std::string(text) + "': " + reason);
}

}  // namespace

std::string Architecture::name() const { return "sm_" + std::to_string(number) + (specific ? "a" : ""); }

ArchitectureLimits limits(const Architecture& architecture) {
  Row row = {architecture.number, 99, 100, 1536, 16};
  const auto* const listed = std::find_if(kTable.begin(), kTable.end(), [&](const Row& candidate) {
    return candidate.number == architecture.number;
  });
  if (listed != kTable.end()) row = *listed;
  return {.shared_bytes_per_block = row.shared_per_block * kKiB,
          .shared_bytes_per_multiprocessor = row.shared_per_multiprocessor * kKiB,
          .registers_per_block = 65536,
          .registers_per_thread = 255,
          .threads_per_block = 1024,
          .threads_per_multiprocessor = row.threads,
          .blocks_per_multiprocessor = row.blocks,
          .known = listed != kTable.end()};
}

Architecture parse_architecture(std::string_view text) {
  std::string_view rest = text.starts_with("sm_") ? text.substr(3) : text;
  Architecture architecture;
  architecture.specific = rest.ends_with('a');
  if (architecture.specific) rest.remove_suffix(1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), architecture.number);
  const bool number = error == std::errc() && end == rest.data() + rest.size() && rest.size() >= 2 &&
                      rest.size() <= 3 && architecture.number > 0;
  if (!number) refuse(text, "expected sm_ and a compute capability without its point, as sm_80 or sm_90a");
  if (architecture.number < kOldest)
    refuse(text, "too old: kernels need sm_80 or newer (cp.async, bf16 matrix products)");
  if (architecture.specific && architecture.number < kFirstSpecific)
    refuse(text, "the suffix a exists from sm_90 on");
  return architecture;
}

std::vector<Architecture> supported_architectures(std::span<const int> numbers) {
  std::vector<Architecture> supported;
  for (const int number : numbers)
    if (number >= kOldest) supported.push_back({number, number == kFirstSpecific});
  std::sort(supported.begin(), supported.end());
  return supported;
}

void check_supported(const Architecture& architecture, std::span<const int> numbers) {
  const std::vector<Architecture> supported = supported_architectures(numbers);
  if (std::any_of(supported.begin(), supported.end(),
                  [&](const Architecture& one) { return one.number == architecture.number; }))
    return;
  std::string names;
  for (const Architecture& one : supported) names += (names.empty() ? "" : ", ") + one.name();
  refuse(architecture.name(), "the NVRTC found cannot compile for it, only for " +
                                  (names.empty() ? "architectures that are too old" : names));
}

Architecture architecture_of_device(int compute_capability, std::span<const int> numbers) {
  const std::string device = "a GPU of compute capability " + std::to_string(compute_capability / 10) + "." +
                             std::to_string(compute_capability % 10);
  if (compute_capability < kOldest)
    throw base::EnvironmentError(device +
                                 " is too old: kernels need 8.0 or newer (cp.async, bf16 matrix products)");
  std::optional<Architecture> best;
  for (const Architecture& one : supported_architectures(numbers)) {
    const bool same = one.number == compute_capability;
    const bool older = one.number / 10 == compute_capability / 10 && one.number < compute_capability;
    if (same || (older && !one.specific)) best = one;  // ascending: the newest stays
  }
  if (best) return *best;
  throw base::EnvironmentError("the NVRTC found compiles nothing that " + device +
                               " runs: install a newer CUDA toolkit, or set FUSETUNE_NVRTC");
}

}  // namespace fusetune::backend::cuda
