// A cost model's two files, checked before XGBoost sees them; what passes the checks, XGBoost loads and uses.
//
// An input is the sidecar, a line "----" and the model. The sidecar names the model's hash: the first @HASH@
// in it stands for the right one, else hardly any change would get past that.
#include <fstream>

#include "base/file.h"
#include "base/hash.h"
#include "model/cost_model.h"
#include "model/model_file.h"
#include "model/synthetic.h"
#include "target.h"

namespace fusetune::fuzz {
namespace {

constexpr std::string_view kBetween = "\n----\n", kHash = "@HASH@";

std::filesystem::path model_path() {
  static const base::TemporaryDirectory directory;
  return directory.path() / "m.json";
}

void write(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string seed(int rounds) {
  model::TrainOptions options;
  options.rounds = rounds;
  options.high_fraction = 0.5;
  const auto trained = model::CostModel::train(model::synthetic_set(model::kMinimumRows + 10), options);
  trained.model->save(model_path());
  const std::string model = base::read_file(model_path());
  const std::string sidecar = base::read_file(model::sidecar_of(model_path()));
  return replaced(sidecar, base::hash_hex(model), kHash).append(kBetween).append(model);
}

void check_model() {
  const auto loaded = accepted([] { return model::CostModel::load(model_path()); });
  if (!loaded || loaded->info().schema != model::Schema::plan_bits) return;
  static const std::vector<plan::FusionPlan> plans = model::some_plans(5);
  const auto predictions = accepted([&] { return loaded->predict(plans); });
  require(!predictions || predictions->size() == plans.size(), "there is one prediction a plan");
  loaded->save(model_path());
  require(accepted([] { return model::CostModel::load(model_path()); }).has_value(), "a model reads back");
}

}  // namespace

std::vector<std::string> fuzz_seeds() { return {seed(1), seed(2)}; }

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const std::string_view bytes = fuzz::text_of(data, size);
  const std::size_t between = std::min(bytes.find(fuzz::kBetween), bytes.size());
  const std::string_view model = bytes.substr(std::min(between + fuzz::kBetween.size(), bytes.size()));
  const std::string sidecar =
      fuzz::replaced(std::string(bytes.substr(0, between)), fuzz::kHash, base::hash_hex(model));
  fuzz::write(fuzz::model_path(), model);
  fuzz::write(model::sidecar_of(fuzz::model_path()), sidecar);
  fuzz::check_model();
  return 0;
}
