// load_weights, save_weights and apply_hf_config of data.h: Hugging Face BERT checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "block/data.h"
#include "block/rounding.h"
#include "block/safetensors.h"

namespace fusetune::block {
namespace {

using nlohmann::json;

/// One linear layer of the checkpoint: a weight [out,in] and a bias [out] that become columns
/// [part * out, (part + 1) * out) of our weight [in,columns] and parameter.
struct LinearRule {
  std::string_view name;
  Weight weight;
  Parameter bias;
  int part;
};
constexpr std::array kLinears{
    LinearRule{"attention.self.query", Weight::w_qkv, Parameter::b_qkv, 0},
    LinearRule{"attention.self.key", Weight::w_qkv, Parameter::b_qkv, 1},
    LinearRule{"attention.self.value", Weight::w_qkv, Parameter::b_qkv, 2},
    LinearRule{"attention.output.dense", Weight::w_out, Parameter::b_out, 0},
    LinearRule{"intermediate.dense", Weight::w_ffn1, Parameter::b_ffn1, 0},
    LinearRule{"output.dense", Weight::w_ffn2, Parameter::b_ffn2, 0},
};

struct NormRule {
  std::string_view name;
  Parameter gamma, beta;
};
constexpr std::array kNorms{NormRule{"attention.output.LayerNorm", Parameter::gamma1, Parameter::beta1},
                            NormRule{"output.LayerNorm", Parameter::gamma2, Parameter::beta2}};

/// Outputs of one linear layer: a third of w_qkv's columns, all of another weight's.
std::int64_t output_size(Weight weight, const Problem& problem) {
  const std::int64_t columns = problem.shape(weight).second;
  return weight == Weight::w_qkv ? columns / 3 : columns;
}

/// What precedes "encoder.layer.N." in the file: "bert.", "roberta.", nothing, ...
std::string find_prefix(const SafetensorsFile& file, int layer) {
  const std::string layer_name = fmt::format("encoder.layer.{}.", layer);
  const std::string wanted = layer_name + "attention.self.query.weight";
  std::set<std::string> prefixes;
  for (const auto& [name, entry] : file.entries()) {
    if (!name.ends_with(wanted)) continue;
    const std::string prefix = name.substr(0, name.size() - wanted.size());
    if (prefix.empty() || prefix.ends_with('.')) prefixes.insert(prefix);
  }
  if (prefixes.empty()) {
    throw base::UsageError(
        fmt::format("{} has no tensor '{}' (with or without a prefix such as 'bert.'): --layer {} "
                    "does not exist, or this is not a BERT checkpoint",
                    file.path().string(), wanted, layer));
  }
  if (prefixes.size() > 1) {
    throw base::UsageError(fmt::format("{} holds several encoders ('{}'): cannot choose one",
                                       file.path().string(), fmt::join(prefixes, "', '")));
  }
  return *prefixes.begin() + layer_name;
}

void require_finite(std::span<const float> values, const SafetensorsFile& file, std::string_view name) {
  if (std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) return;
  throw base::UsageError(
      fmt::format("{}: tensor '{}' holds values that are not finite in this problem's dtype",
                  file.path().string(), name));
}

void load_linear(const SafetensorsFile& file, const std::string& layer, const LinearRule& rule,
                 const Problem& problem, BlockData& data) {
  const auto [inputs, columns] = problem.shape(rule.weight);
  const std::int64_t outputs = output_size(rule.weight, problem);
  const std::string weight_name = fmt::format("{}{}.weight", layer, rule.name);
  std::vector<float> source = file.read(weight_name, std::array{outputs, inputs});
  round_to(source, problem.dtype);
  require_finite(source, file, weight_name);
  std::vector<float>& weight = data.weights[static_cast<int>(rule.weight)];
  const std::int64_t first = rule.part * outputs;
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t i = 0; i < inputs; ++i) weight[i * columns + first + o] = source[o * inputs + i];
  }
  const std::string bias_name = fmt::format("{}{}.bias", layer, rule.name);
  const std::vector<float> bias = file.read(bias_name, std::array{outputs});
  require_finite(bias, file, bias_name);
  std::copy(bias.begin(), bias.end(), data.parameters[static_cast<int>(rule.bias)].begin() + first);
}

/// LayerNorm vectors are called weight and bias, in older checkpoints gamma and beta.
void load_norm_vector(const SafetensorsFile& file, const std::string& norm, std::string_view suffix,
                      std::string_view old_suffix, std::vector<float>& target, const Problem& problem) {
  std::string name = fmt::format("{}.{}", norm, suffix);
  if (!file.entries().contains(name) && file.entries().contains(fmt::format("{}.{}", norm, old_suffix))) {
    name = fmt::format("{}.{}", norm, old_suffix);
  }
  target = file.read(name, std::array{problem.hidden()});
  require_finite(target, file, name);
}

void resize(const Problem& problem, BlockData& data) {
  for (int w = 0; w < kWeightCount; ++w) {
    const auto [rows, columns] = problem.shape(static_cast<Weight>(w));
    data.weights[w].assign(rows * columns, 0.0f);
  }
  for (int p = 0; p < kParameterCount; ++p) {
    data.parameters[p].assign(problem.elements(static_cast<Parameter>(p)), 0.0f);
  }
}

std::int64_t read_size(const json& config, const char* key, const std::string& file) {
  if (!config.contains(key) || !config[key].is_number_integer() || config[key] < 1 ||
      config[key] > INT32_MAX) {
    throw base::UsageError(
        fmt::format("reading {}: '{}' is missing or not a positive whole number", file, key));
  }
  return config[key];
}

Gelu read_activation(const json& config, const std::string& file) {
  const auto found = config.find("hidden_act");
  const std::string activation = found != config.end() && found->is_string() ? found->get<std::string>() : "";
  if (activation == "gelu") return Gelu::erf;
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh") return Gelu::tanh;
  throw base::UsageError(
      fmt::format("reading {}: hidden_act is '{}'; gelu (erf), gelu_new and gelu_pytorch_tanh "
                  "(tanh) can be run",
                  file, activation));
}

}  // namespace

void load_weights(const std::filesystem::path& path, int layer, const Problem& problem, BlockData& data) {
  const SafetensorsFile file(path);
  const std::string prefix = find_prefix(file, layer);
  BlockData loaded;
  resize(problem, loaded);
  for (const LinearRule& rule : kLinears) load_linear(file, prefix, rule, problem, loaded);
  for (const NormRule& rule : kNorms) {
    const std::string norm = prefix + std::string(rule.name);
    load_norm_vector(file, norm, "weight", "gamma", loaded.parameters[static_cast<int>(rule.gamma)], problem);
    load_norm_vector(file, norm, "bias", "beta", loaded.parameters[static_cast<int>(rule.beta)], problem);
  }
  // Only a complete layer replaces what was there.
  data.weights = std::move(loaded.weights);
  data.parameters = std::move(loaded.parameters);
}

void save_weights(const std::filesystem::path& path, int layer, const Problem& problem,
                  const BlockData& data) {
  const std::string prefix = fmt::format("encoder.layer.{}.", layer);
  std::vector<SafetensorsTensor> tensors;
  for (const LinearRule& rule : kLinears) {
    const auto [inputs, columns] = problem.shape(rule.weight);
    const std::int64_t outputs = output_size(rule.weight, problem), first = rule.part * outputs;
    std::vector<float> transposed(outputs * inputs);
    for (std::int64_t o = 0; o < outputs; ++o) {
      for (std::int64_t i = 0; i < inputs; ++i)
        transposed[o * inputs + i] = data[rule.weight][i * columns + first + o];
    }
    const auto bias = data[rule.bias].begin() + first;
    tensors.push_back(
        {fmt::format("{}{}.weight", prefix, rule.name), {outputs, inputs}, std::move(transposed)});
    tensors.push_back({fmt::format("{}{}.bias", prefix, rule.name), {outputs}, {bias, bias + outputs}});
  }
  for (const NormRule& rule : kNorms) {
    tensors.push_back({fmt::format("{}{}.weight", prefix, rule.name), {problem.hidden()}, data[rule.gamma]});
    tensors.push_back({fmt::format("{}{}.bias", prefix, rule.name), {problem.hidden()}, data[rule.beta]});
  }
  write_safetensors(path, tensors);
}

void apply_hf_config(const std::filesystem::path& directory, Problem& problem) {
  const std::filesystem::path path = directory / "config.json";
  const std::string file = path.string();
  const json config = json::parse(base::read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw base::UsageError(fmt::format("reading {}: it is not a JSON object", file));
  const std::int64_t hidden = read_size(config, "hidden_size", file);
  const std::int64_t heads = read_size(config, "num_attention_heads", file);
  if (hidden % heads != 0) {
    throw base::UsageError(fmt::format(
        "reading {}: hidden_size {} is not a multiple of num_attention_heads {}", file, hidden, heads));
  }
  if (!config.contains("layer_norm_eps") || !config["layer_norm_eps"].is_number()) {
    throw base::UsageError(fmt::format("reading {}: 'layer_norm_eps' is missing or not a number", file));
  }
  Problem changed = problem;
  changed.heads = heads;
  changed.head_size = hidden / heads;
  changed.ffn = read_size(config, "intermediate_size", file);
  changed.layers = static_cast<int>(read_size(config, "num_hidden_layers", file));
  changed.eps = config["layer_norm_eps"];
  changed.gelu = read_activation(config, file);
  problem = changed;
}

}  // namespace fusetune::block
