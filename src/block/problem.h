// Problem: everything that defines what is computed, none of how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "block/mask.h"
#include "block/operators.h"

namespace fusetune::block {

enum class Dtype : std::uint8_t { f32, f16, bf16 };
enum class Gelu : std::uint8_t { erf, tanh };
enum class DataMode : std::uint8_t { uniform, scaled };

std::string_view name(Dtype dtype);
std::string_view name(Gelu gelu);
std::string_view name(DataMode mode);
/// Throw base::UsageError naming the accepted words.
Dtype parse_dtype(std::string_view text);
Gelu parse_gelu(std::string_view text);
DataMode parse_data_mode(std::string_view text);

struct Problem {
  std::int64_t batch = 1;
  std::int64_t seq = 128;
  std::int64_t heads = 12;
  std::int64_t head_size = 64;
  std::int64_t ffn = 3072;  // inner size F
  int layers = 12;          // layers of the model around the block: cache mode `model` rotates weights
  MaskSpec mask;            // default: full
  Dtype dtype = Dtype::f32;
  double eps = 1e-5;
  Gelu gelu = Gelu::erf;
  DataMode data = DataMode::uniform;
  std::uint64_t seed = 0;

  std::int64_t hidden() const { return heads * head_size; }
  std::int64_t tokens() const { return batch * seq; }
  /// Shape of a tensor, e.g. [B,H,S,W]; in elements.
  std::vector<std::int64_t> shape(Tensor tensor) const;
  std::int64_t elements(Tensor tensor) const;
  /// {rows, columns} = {in, out} of a weight matrix.
  std::pair<std::int64_t, std::int64_t> shape(Weight weight) const;
  std::int64_t elements(Parameter parameter) const;

  /// Checked limits: every size >= 1 and below its limit, no product overflows, and the block's tensors
  /// fit `memory_bytes` (0: this machine's memory). Throws base::UsageError with the bytes needed.
  void check(std::int64_t memory_bytes = 0) const;

  /// Canonical one-line text, e.g. "batch=1 seq=128 heads=12 head_size=64 ffn=3072 layers=12 mask=full
  /// dtype=f32 eps=1e-05 gelu=erf data=uniform seed=0": equal texts are equal problems. parse() reads it
  /// back.
  std::string key() const;
  static Problem parse(std::string_view key);
};

/// A named size: bert-base, bert-large, minilm-l6, minilm-l12, vit-base, ...
struct Preset {
  std::string_view name;
  std::int64_t heads, head_size, ffn;
  int layers;
  double eps;
};
std::span<const Preset> presets();
/// Throws base::UsageError with the nearest name.
const Preset& find_preset(std::string_view name);

}  // namespace fusetune::block
