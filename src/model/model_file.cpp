#include "model/model_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/number.h"

namespace fusetune::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Of both files; a file of another version is refused.
constexpr int kFormat = 1;
constexpr const char* kFormatKey = "fusetune_cost_model";
/// XGBoost's documents nest 8 deep inside ours. Some readers of JSON recurse, and a file of nothing but
/// brackets would end them.
constexpr int kDeepest = 32;

[[noreturn]] void refuse(const fs::path& path, std::string_view why) {
  throw BadModelFile(fmt::format("'{}' is no cost model for this program: {}; fit one with: fusetune train",
                                 path.string(), why));
}

/// Brackets inside each other, those in strings aside.
int nesting(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

Json parse(const fs::path& path, std::string_view text) {
  if (text.empty()) refuse(path, "it is empty");
  if (nesting(text) > kDeepest) refuse(path, fmt::format("brackets nest more than {} deep", kDeepest));
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) refuse(path, "it is not JSON, or cut off");
  if (!document.is_object() || !document.contains(kFormatKey))
    refuse(path, "it is some other program's JSON");
  if (document[kFormatKey] != kFormat)
    refuse(path, fmt::format("it has format {}, this version reads format {}", document[kFormatKey].dump(),
                             kFormat));
  return document;
}

// --- The part that XGBoost reads. at() and get<>() throw where something is missing or of another type.

std::int64_t whole_number(const Json& text) {
  const auto value = base::parse_int(text.get_ref<const std::string&>());
  if (!value) throw base::UsageError("a count is no number");
  return *value;
}

/// XGBoost's numbers are float32: larger ones would become infinite.
bool is_float(const Json& value) {
  return value.is_number() && std::abs(value.get<double>()) <= double{std::numeric_limits<float>::max()};
}

/// Every array has one entry a node, every node but the root has one parent, every split a feature that
/// exists.
void check_tree(const Json& tree, std::int64_t columns) {
  const auto nodes = static_cast<std::size_t>(whole_number(tree.at("tree_param").at("num_nodes")));
  if (nodes < 1) throw base::UsageError("a tree has no node");
  const auto check_all = [&](const char* key, const char* what, auto is_good) {
    const Json& values = tree.at(key);
    if (values.size() != nodes) throw base::UsageError(fmt::format("a tree's {} are not {}", key, nodes));
    if (!std::all_of(values.begin(), values.end(), is_good))
      throw base::UsageError(fmt::format("a tree's {} are not all {}", key, what));
  };
  for (const char* key : {"base_weights", "loss_changes", "split_conditions", "sum_hessian"})
    check_all(key, "numbers", is_float);
  for (const char* key :
       {"default_left", "left_children", "parents", "right_children", "split_indices", "split_type"})
    check_all(key, "numbers", [](const Json& value) { return value.is_number_integer(); });
  for (const char* key : {"categories", "categories_nodes", "categories_segments", "categories_sizes"})
    if (!tree.at(key).empty()) throw base::UsageError("a tree splits by categories");
  std::vector<bool> seen(nodes, false);
  const auto visit = [&](std::int64_t child) {
    if (child < 1 || child >= static_cast<std::int64_t>(nodes) || seen[static_cast<std::size_t>(child)])
      throw base::UsageError("a tree's branches lead nowhere or in a circle");
    seen[static_cast<std::size_t>(child)] = true;
  };
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto left = tree.at("left_children")[node].get<std::int64_t>();
    const auto right = tree.at("right_children")[node].get<std::int64_t>();
    if ((left == -1) != (right == -1)) throw base::UsageError("a tree has half a branch");
    if (left == -1) continue;
    if (tree.at("split_type")[node] != 0) throw base::UsageError("a tree splits by categories");
    visit(left);
    visit(right);
    const auto feature = tree.at("split_indices")[node].get<std::int64_t>();
    if (feature < 0 || feature >= columns)
      throw base::UsageError("a tree asks for a feature that is not there");
  }
}

/// Models of another line of XGBoost's versions are refused, whether or not it would read them.
void check_xgboost(const std::string& fitted_with) {
  const auto line = [](const std::string& version) { return version.substr(0, version.rfind('.')); };
  if (line(fitted_with) != line(xgboost_version()))
    throw base::UsageError(fmt::format("XGBoost {} wrote it, here is {}", fitted_with, xgboost_version()));
}

/// One output a row, of the objective that was fitted: XGBoost writes where a tree's group says.
void check_outputs(const Json& learner, std::string_view objective) {
  const Json& named = learner.at("objective").at("name");
  if (named != objective)
    throw base::UsageError(fmt::format("its objective is {}, not {}", named.dump(), objective));
  const Json& param = learner.at("learner_model_param");
  const auto score = base::parse_double(param.at("base_score").get_ref<const std::string&>());
  if (!score || !std::isfinite(*score)) throw base::UsageError("its base_score is no number");
  if (whole_number(param.at("num_class")) != 0 || whole_number(param.at("num_target")) != 1)
    throw base::UsageError("it has several outputs");
  const Json& model = learner.at("gradient_booster").at("model");
  if (whole_number(model.at("gbtree_model_param").at("num_parallel_tree")) != 1)
    throw base::UsageError("it has several trees a round");
  for (const Json& group : model.at("tree_info"))
    if (group != 0) throw base::UsageError("a tree is for an output that is not there");
}

void check_booster(const Json& booster, std::string_view objective, std::int64_t columns) {
  const auto version = booster.at("version").get<std::array<int, 3>>();
  check_xgboost(fmt::format("{}.{}.{}", version[0], version[1], version[2]));
  const Json& learner = booster.at("learner");
  const std::int64_t fitted = whole_number(learner.at("learner_model_param").at("num_feature"));
  if (fitted != columns)
    throw base::UsageError(fmt::format("its trees were fitted to {} features, not {}", fitted, columns));
  if (learner.at("gradient_booster").at("name") != "gbtree")
    throw base::UsageError("it is not made of trees");
  check_outputs(learner, objective);
  const Json& model = learner.at("gradient_booster").at("model");
  const Json& trees = model.at("trees");
  const std::int64_t count = whole_number(model.at("gbtree_model_param").at("num_trees"));
  if (static_cast<std::int64_t>(trees.size()) != count || model.at("tree_info").size() != trees.size())
    throw base::UsageError(fmt::format("it has {} trees and says {}", trees.size(), count));
  for (const Json& tree : trees) check_tree(tree, columns);
}

std::string checked_booster(const fs::path& path, const Json& document, const char* which,
                            std::string_view objective, std::size_t columns) {
  try {
    check_booster(document.at(which), objective, static_cast<std::int64_t>(columns));
    return document[which].dump();
  } catch (const base::UsageError& error) {
    refuse(path, fmt::format("{}: {}", which, error.what()));
  } catch (const Json::exception& error) {
    refuse(path, fmt::format("{} is incomplete: {}", which, error.what()));
  }
}

// --- The sidecar.

Json to_json(const ModelInfo& info, const std::string& model_hash) {
  std::vector<std::string> names;
  for (const FeatureInfo& feature : features(info.schema)) names.push_back(feature.name);
  return {{kFormatKey, kFormat},
          {"model_hash", model_hash},
          {"schema", name(info.schema)},
          {"schema_hash", schema_hash(info.schema)},
          {"features", names},
          {"training_hash", info.training_hash},
          {"groups", info.groups},
          {"rows", info.rows},
          {"high_rows", info.high_rows},
          {"left_out", info.left_out},
          {"groups_without_uniform", info.groups_without_uniform},
          {"high_fraction", info.options.high_fraction},
          {"rounds", info.options.rounds},
          {"seed", info.options.seed},
          {"threads", info.options.threads},
          {"center", info.center},
          {"unit", info.unit},
          {"environment", info.environment},
          {"program", info.program},
          {"xgboost", info.xgboost},
          {"metrics_held_out", info.metrics}};
}

ModelInfo from_json(const Json& sidecar) {
  ModelInfo info;
  info.schema = parse_schema(sidecar.at("schema").get<std::string>());
  info.training_hash = sidecar.at("training_hash").get<std::string>();
  info.groups = sidecar.at("groups").get<std::vector<std::string>>();
  info.rows = sidecar.at("rows").get<std::int64_t>();
  info.high_rows = sidecar.at("high_rows").get<std::int64_t>();
  info.left_out = sidecar.at("left_out").get<std::int64_t>();
  info.groups_without_uniform = sidecar.at("groups_without_uniform").get<std::int64_t>();
  info.options.high_fraction = sidecar.at("high_fraction").get<double>();
  info.options.rounds = sidecar.at("rounds").get<int>();
  info.options.seed = sidecar.at("seed").get<std::uint64_t>();
  info.options.threads = sidecar.at("threads").get<int>();
  info.center = sidecar.at("center").get<double>();
  info.unit = sidecar.at("unit").get<std::string>();
  info.environment = sidecar.at("environment").get<std::string>();
  info.program = sidecar.at("program").get<std::string>();
  info.xgboost = sidecar.at("xgboost").get<std::string>();
  for (const auto& [key, value] : sidecar.at("metrics_held_out").items())
    if (value.is_number()) info.metrics[key] = value.get<double>();  // null: not known
  return info;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void check_features(const fs::path& path, const Json& sidecar, Schema schema) {
  const auto fitted = sidecar.at("features").get<std::vector<std::string>>();
  std::vector<std::string> missing, surplus, known;
  for (const FeatureInfo& feature : features(schema)) known.push_back(feature.name);
  const auto lacks = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) == names.end();
  };
  for (const std::string& name : known)
    if (lacks(fitted, name)) missing.push_back(name);
  for (const std::string& name : fitted)
    if (lacks(known, name)) surplus.push_back(name);
  std::string why;
  if (!missing.empty()) why += fmt::format(", without {}", joined(missing));
  if (!surplus.empty()) why += fmt::format(", with {}, unknown here", joined(surplus));
  if (why.empty() && (fitted != known || sidecar.at("schema_hash") != schema_hash(schema)))
    why = ", in another order or of another schema";
  if (!why.empty())
    refuse(path, fmt::format("it was fitted to {} features, this version has {}{}", fitted.size(),
                             known.size(), why));
}

ModelInfo parse_sidecar(const fs::path& path, std::string_view text, const std::string& model_hash) {
  const Json sidecar = parse(path, text);
  try {
    ModelInfo info = from_json(sidecar);
    check_features(path, sidecar, info.schema);
    check_xgboost(info.xgboost);
    if (info.options.threads < 1 || !std::isfinite(info.center)) refuse(path, "its numbers make no sense");
    if (sidecar.at("model_hash") != model_hash)
      refuse(path,
             "it describes another model than the one beside it, which was changed or only half replaced");
    return info;
  } catch (const Json::exception& error) {
    refuse(path, fmt::format("it is incomplete: {}", error.what()));
  } catch (const base::UsageError& error) {
    refuse(path, error.what());
  }
}

std::string read_sidecar(const fs::path& path) {
  try {
    return base::read_file(path);
  } catch (const base::EnvironmentError& error) {
    refuse(path, fmt::format("a model needs its sidecar, and {}", error.what()));
  }
}

ModelFile checked_file(const fs::path& path, const Json& document, ModelInfo info) {
  const std::size_t columns = features(info.schema).size();
  return {std::move(info), checked_booster(path, document, "regressor", "reg:squarederror", columns),
          checked_booster(path, document, "classifier", "binary:logistic", columns)};
}

}  // namespace

fs::path sidecar_of(const fs::path& model) {
  fs::path sidecar = model;
  if (sidecar.extension() == ".json") sidecar.replace_extension();
  sidecar += ".meta.json";
  return sidecar;
}

void write_model_file(const fs::path& path, const ModelFile& file) {
  const std::string text = fmt::format("{{\"{}\": {},\n\"regressor\": {},\n\"classifier\": {}}}\n",
                                       kFormatKey, kFormat, file.regressor, file.classifier);
  base::write_file_atomic(path, text);
  base::write_file_atomic(sidecar_of(path), to_json(file.info, base::hash_hex(text)).dump(1) + "\n");
}

ModelFile read_model_file(const fs::path& path) {
  const std::string model = base::read_file(path);
  const Json document = parse(path, model);  // before the sidecar: a file that is no model needs none
  return checked_file(path, document,
                      parse_sidecar(sidecar_of(path), read_sidecar(sidecar_of(path)), base::hash_hex(model)));
}

ModelFile parse_model_file(const fs::path& path, std::string_view model, std::string_view sidecar) {
  return checked_file(path, parse(path, model),
                      parse_sidecar(sidecar_of(path), sidecar, base::hash_hex(model)));
}

}  // namespace fusetune::model
