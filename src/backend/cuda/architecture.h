// The GPU architectures that kernels are compiled for, and what a kernel may use on each.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::backend::cuda {

/// A compilation target: sm_90a is {90, true}.
struct Architecture {
  int number = 80;        // compute capability times ten
  bool specific = false;  // the suffix a: may use instructions that no other architecture has

  std::string name() const;  // "sm_90a"
  auto operator<=>(const Architecture&) const = default;
};

/// What one architecture offers a kernel.
struct ArchitectureLimits {
  std::int64_t shared_bytes_per_block = 0;           // dynamic and static, with the opt-in above 48 KiB
  std::int64_t shared_bytes_per_multiprocessor = 0;  // of which every resident block costs 1 KiB of its own
  int registers_per_block = 0;                       // 32-bit; also of a multiprocessor
  int registers_per_thread = 0;
  int threads_per_block = 0;
  int threads_per_multiprocessor = 0;
  int blocks_per_multiprocessor = 0;
  bool known = true;  // false: not in the table, whose smallest values are given
  bool operator==(const ArchitectureLimits&) const = default;
};
/// By the architecture's number.
ArchitectureLimits limits(const Architecture& architecture);

/// Shared memory per block that the system keeps for itself.
inline constexpr std::int64_t kReservedSharedBytes = 1024;

/// Reads "sm_90a" or "90a". Throws base::UsageError for what is no architecture and for those older than
/// sm_80, which have neither cp.async nor bf16 matrix products.
Architecture parse_architecture(std::string_view text);

/// What kernels can be compiled for with a compiler that lists `numbers` (Nvrtc::architectures()), ascending:
/// sm_80 and newer, sm_90 as sm_90a.
std::vector<Architecture> supported_architectures(std::span<const int> numbers);

/// Throws base::UsageError, with those that can be used, when a compiler that lists `numbers` cannot compile
/// for `architecture`.
void check_supported(const Architecture& architecture, std::span<const int> numbers);

/// What to compile for a device of this compute capability (times ten) with a compiler that lists `numbers`:
/// its own architecture, else the newest older one of its generation, whose images it runs as well. Throws
/// base::EnvironmentError where there is none.
Architecture architecture_of_device(int compute_capability, std::span<const int> numbers);

}  // namespace fusetune::backend::cuda
