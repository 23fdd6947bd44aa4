// The probes: one warp, one wrapper of the platform, what goes in, and how its answer is compared with the
// emulator's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fusetune::device_check {

/// How an answer's words, 32 bits each, are compared.
struct ProbeBound {
  enum class Kind {
    exact,         // bit for bit
    exact_or_nan,  // float32; every NaN is the same
    ulp,           // float32, units in the last place; subnormal results are zeros
    absolute,      // float32
  };
  Kind kind = Kind::exact;
  double limit = 0;
};

struct Probe {
  std::string name;                      // "ldmatrix"
  std::string file;                      // of probes/
  std::string symbol;                    // of the kernel
  std::vector<std::uint32_t> in = {};    // tensor[0]
  std::vector<std::uint32_t> more = {};  // tensor[2]
  std::int64_t out_words = 0;            // tensor[1]
  int count = 0;                         // batch
  std::int64_t shared_bytes = 0;
  ProbeBound bound = {};
};

/// Every wrapper of kernels/cuda/platform_nvidia.h but those among blocks (see stage_blocks.cpp), and shared
/// memory that a launch has to opt in to.
std::vector<Probe> all_probes();

/// "ok", how many words differ by more than the bound, the largest difference, the first wrong words.
nlohmann::ordered_json compare_answers(const Probe& probe, const std::vector<std::uint32_t>& got,
                                       const std::vector<std::uint32_t>& want);

}  // namespace fusetune::device_check
