// Writes a problem's generated data and the oracle's tensors as .npy files: dump_oracle DIRECTORY
// PROBLEM-KEY. check_oracle.py reads them and recomputes everything on its own.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "block/data.h"
#include "block/mask.h"
#include "block/npy.h"
#include "block/problem.h"
#include "block/reference.h"

namespace {

using namespace fusetune::block;

template <typename Value>
void dump(const std::filesystem::path& directory, std::string_view name, std::vector<std::int64_t> shape,
          const std::vector<Value>& values) {
  write_npy(directory / (std::string(name) + ".npy"), shape, std::span<const Value>(values));
}

void dump_all(const std::filesystem::path& directory, const Problem& problem) {
  problem.check();
  const BlockData data = generate_data(problem);
  const Mask mask(problem.mask, problem.batch, problem.seq);
  const Reference reference = compute_reference(problem, mask, data);

  dump(directory, "input_hidden", problem.shape(Tensor::hidden), data.hidden);
  for (int w = 0; w < kWeightCount; ++w) {
    const auto [rows, columns] = problem.shape(static_cast<Weight>(w));
    dump(directory, name(static_cast<Weight>(w)), {rows, columns}, data.weights[w]);
  }
  for (int p = 0; p < kParameterCount; ++p) {
    const auto parameter = static_cast<Parameter>(p);
    dump(directory, name(parameter), {problem.elements(parameter)}, data.parameters[p]);
  }
  for (int t = 0; t < kTensorCount; ++t) {
    dump(directory, name(static_cast<Tensor>(t)), problem.shape(static_cast<Tensor>(t)),
         reference.tensors[t]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: dump_oracle DIRECTORY PROBLEM-KEY\n");
    return 2;
  }
  try {
    dump_all(argv[1], Problem::parse(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dump_oracle: %s\n", error.what());
    return 1;
  }
  return 0;
}
