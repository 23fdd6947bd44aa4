// A problem's key: what reads as a problem reads back from its own key.
#include "block/problem.h"
#include "reads_files.h"
#include "target.h"

namespace fusetune::fuzz {

std::vector<std::string> fuzz_seeds() {
  block::Problem problem;
  std::vector<std::string> seeds{problem.key()};
  for (const char* mask : {"sliding:window=3,causal=1", "padding:lengths=3/0/128", "bigbird:random=2,seed=5",
                           "file:path=a\\,b\\ c\\\\.npy,digest=0123456789abcdef"}) {
    problem.mask = block::MaskSpec::parse(mask);
    problem.eps = 1e-12;
    problem.seed = UINT64_MAX;
    seeds.push_back(problem.key());
  }
  return seeds;
}

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const std::string_view text = fuzz::text_of(data, size);
  if (fuzz::reads_files(text)) return 0;
  const auto problem = fuzz::accepted([&] { return block::Problem::parse(text); });
  if (!problem) return 0;
  const std::string key = problem->key();
  const auto again = fuzz::accepted([&] { return block::Problem::parse(key); });
  fuzz::require(again && again->key() == key, "a problem reads back from its key: " + key);
  constexpr std::int64_t kMemory = std::int64_t{1} << 34;
  fuzz::accepted([&] { return problem->check(kMemory), true; });
  return 0;
}
