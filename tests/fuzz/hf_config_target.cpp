// A model's config.json: what is accepted are sizes that a problem has a key for; what is refused changes
// nothing.
#include <fstream>

#include "base/file.h"
#include "block/data.h"
#include "target.h"

namespace fusetune::fuzz {
namespace {

std::string config(const std::string& activation, const std::string& more) {
  return R"({"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 12,
 "hidden_act": ")" +
         activation + R"(", )" + more + "}";
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {config("gelu", R"("layer_norm_eps": 1e-12, "architectures": ["BertModel"])"),
          config("gelu_new", R"("layer_norm_eps": 1e-05, "torch_dtype": null)"),
          config("relu", R"("layer_norm_eps": 1)"), "{}"};
}

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  static const base::TemporaryDirectory directory;
  std::ofstream(directory.path() / "config.json", std::ios::binary) << fuzz::text_of(data, size);
  block::Problem problem;
  const std::string before = problem.key();
  const auto applied =
      fuzz::accepted([&] { return block::apply_hf_config(directory.path(), problem), true; });
  fuzz::require(applied || problem.key() == before, "what is refused changes nothing");
  if (!applied) return 0;
  for (const std::int64_t entry :
       {problem.heads, problem.head_size, problem.ffn, std::int64_t{problem.layers}})
    fuzz::require(entry > 0, "sizes are positive");
  fuzz::require(problem.heads * problem.head_size <= INT32_MAX, "the hidden size is that of the file");
  constexpr std::int64_t kMemory = std::int64_t{1} << 34;
  if (!fuzz::accepted([&] { return problem.check(kMemory), true; })) return 0;
  const auto again = fuzz::accepted([&] { return block::Problem::parse(problem.key()); });
  fuzz::require(again && again->key() == problem.key(),
                "a problem reads back from its key: " + problem.key());
  return 0;
}
