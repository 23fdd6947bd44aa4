// The numbers a block runs on: generated from a seed, or read from a Hugging Face checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "block/problem.h"

namespace fusetune::block {

/// Unpacked weights (row-major [in,out]), vector parameters and the input, all as float32 values that
/// are already rounded to the problem's dtype where block.md says so.
struct BlockData {
  std::array<std::vector<float>, kWeightCount> weights;
  std::array<std::vector<float>, kParameterCount> parameters;
  std::vector<float> hidden;  // [B,S,D]

  const std::vector<float>& operator[](Weight weight) const { return weights[static_cast<int>(weight)]; }
  const std::vector<float>& operator[](Parameter parameter) const {
    return parameters[static_cast<int>(parameter)];
  }
};

/// Philox4x32-10 data, reproducible anywhere; the values do not depend on the number of threads.
///
/// Element e of a tensor comes from word e % 4 of philox(seed, stream, e / 4), in random.h's terms; the
/// streams are hidden 0, weights 1 + index in the table, parameters 5 + index in the table.
/// - uniform data: -0.4 + 0.8 * to_unit(word) in float64;
/// - scaled data: elements 2p and 2p + 1 are the two of to_normals(word of 2p, word of 2p + 1), times
///   1/sqrt(fan_in) for weights ([in,out]: fan_in is the number of rows), 0.02 for biases and beta, 1 for
///   hidden; gamma is 1.
/// Values are then rounded to float32 and, for hidden and weights, to the problem's dtype.
BlockData generate_data(const Problem& problem);

/// Replaces weights and parameters by those of layer `layer` of a `.safetensors` file with Hugging Face
/// BERT names, with or without a prefix such as "bert."; weights are rounded to the problem's dtype. `data`
/// is unchanged where that fails. Throws base::UsageError naming the missing, misshapen or non-finite tensor.
void load_weights(const std::filesystem::path& path, int layer, const Problem& problem, BlockData& data);

/// Writes weights and parameters as layer `layer` of a float32 `.safetensors` file that load_weights() and
/// Hugging Face's BertEncoder read. Throws base::EnvironmentError.
void save_weights(const std::filesystem::path& path, int layer, const Problem& problem,
                  const BlockData& data);

/// Sizes, eps and activation from a Hugging Face `config.json`; leaves batch, seq and mask alone.
/// Throws base::UsageError naming the missing or unusable entry; `problem` is then unchanged.
void apply_hf_config(const std::filesystem::path& directory, Problem& problem);

}  // namespace fusetune::block
