// The two files of a cost model.
//
//     cost_model.json        {"fusetune_cost_model": 1, "regressor": {...}, "classifier": {...}}
//     cost_model.meta.json   what it was made from, and the hash of the other file
//
// The two boosters are XGBoost's JSON models as they are. XGBoost ends in bare allocation errors or worse at
// files that are not quite its own, so it sees only what was checked here.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/cost_model.h"

namespace fusetune::model {

/// A model file that cannot be used: cut off, foreign, of other features, of another version. The text names
/// the file, the reason and what to do.
struct BadModelFile : base::EnvironmentError {
  using base::EnvironmentError::EnvironmentError;
};

struct ModelFile {
  ModelInfo info;
  std::string regressor, classifier;  // XGBoost's JSON
};

/// "cost_model.json" -> "cost_model.meta.json"; another ending is kept: "model.bin" -> "model.bin.meta.json".
std::filesystem::path sidecar_of(const std::filesystem::path& model);

/// Throws base::EnvironmentError where either cannot be written. One that was there stays whole; where the
/// second cannot be written, the two do not match and read_model_file() says so.
void write_model_file(const std::filesystem::path& path, const ModelFile& file);

/// Throws BadModelFile, and base::EnvironmentError where either file cannot be read.
ModelFile read_model_file(const std::filesystem::path& path);
/// The same of the files' content; `path` is what errors name.
ModelFile parse_model_file(const std::filesystem::path& path, std::string_view model,
                           std::string_view sidecar);

}  // namespace fusetune::model
