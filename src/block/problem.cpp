#include "block/problem.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "block/rounding.h"

namespace fusetune::block {
namespace {

/// Byte counts of problems at every limit stay below 2^80, so 128 bits never overflow.
__extension__ using Wide = __int128;

struct Limit {
  std::string_view option;
  std::int64_t Problem::*member;
  std::int64_t most;
};
constexpr std::array kSizeLimits{
    Limit{"--batch", &Problem::batch, 1'048'576}, Limit{"--seq", &Problem::seq, 65'536},
    Limit{"--heads", &Problem::heads, 1'024},     Limit{"--head-size", &Problem::head_size, 1'024},
    Limit{"--ffn", &Problem::ffn, 262'144},
};
constexpr int kMostLayers = 1'024;

constexpr std::array<std::string_view, 3> kDtypeNames{"f32", "f16", "bf16"};
constexpr std::array<std::string_view, 2> kGeluNames{"erf", "tanh"};
constexpr std::array<std::string_view, 2> kDataModeNames{"uniform", "scaled"};

constexpr std::array kPresets{
    Preset{"bert-tiny", 2, 64, 512, 2, 1e-12},      Preset{"bert-mini", 4, 64, 1024, 4, 1e-12},
    Preset{"bert-small", 8, 64, 2048, 4, 1e-12},    Preset{"bert-base", 12, 64, 3072, 12, 1e-12},
    Preset{"bert-large", 16, 64, 4096, 24, 1e-12},  Preset{"distilbert", 12, 64, 3072, 6, 1e-12},
    Preset{"roberta-base", 12, 64, 3072, 12, 1e-5}, Preset{"minilm-l6", 12, 32, 1536, 6, 1e-12},
    Preset{"minilm-l12", 12, 32, 1536, 12, 1e-12},  Preset{"vit-base", 12, 64, 3072, 12, 1e-6},
    Preset{"vit-large", 16, 64, 4096, 24, 1e-6},
};

/// ", did you mean X?" or nothing.
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string near = base::nearest(word, candidates);
  return near.empty() ? std::string() : fmt::format("; did you mean {}?", near);
}

int find_word(std::string_view option, std::string_view text, std::span<const std::string_view> words) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) {
    throw base::UsageError(fmt::format("{} '{}': expected one of {}{}", option, text, fmt::join(words, ", "),
                                       suggestion(text, words)));
  }
  return static_cast<int>(found - words.begin());
}

Wide product(std::span<const std::int64_t> factors) {
  Wide result = 1;
  for (const std::int64_t factor : factors) result *= factor;
  return result;
}

/// Bytes of all activations as kernels hold them, and of the unpacked weights.
Wide kernel_bytes(const Problem& problem) {
  Wide bytes = 0;
  for (int t = 0; t < kTensorCount; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    const std::int64_t size = element_size(stored_as(tensor, problem.dtype));
    bytes += size * product(problem.shape(tensor));
  }
  for (int w = 0; w < kWeightCount; ++w) {
    const auto [rows, columns] = problem.shape(static_cast<Weight>(w));
    bytes += Wide{4} * rows * columns;
  }
  return bytes;
}

/// Bytes of the float64 oracle, which every check of a result holds beside the kernels' tensors.
Wide oracle_bytes(const Problem& problem) {
  Wide elements = 0;
  for (int t = 0; t < kTensorCount; ++t) elements += product(problem.shape(static_cast<Tensor>(t)));
  return 8 * elements;
}

/// Memory this process may use: the machine's, or the control group's limit where that is less.
std::int64_t machine_memory() {
  std::int64_t bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::int64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

std::string describe_bytes(Wide bytes) {
  return fmt::format("{} bytes ({:.1f} GiB)", bytes, static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
}

void check_memory(const Problem& problem, std::int64_t memory_bytes) {
  const bool on_this_machine = memory_bytes == 0;
  const Wide available = on_this_machine ? machine_memory() : memory_bytes;
  const Wide needed = kernel_bytes(problem) + (on_this_machine ? oracle_bytes(problem) : 0);
  if (needed <= available) return;
  throw base::UsageError(fmt::format(
      "--batch {} --seq {} --heads {} --head-size {} --ffn {}: the block's tensors{} need {}, but {} has {}; "
      "choose a smaller batch or sequence",
      problem.batch, problem.seq, problem.heads, problem.head_size, problem.ffn,
      on_this_machine ? " and their float64 reference" : "", describe_bytes(needed),
      on_this_machine ? "this machine" : "the device", describe_bytes(available)));
}

/// Splits at spaces that no backslash escapes (a mask's file path may contain escaped ones).
std::vector<std::string> split_fields(std::string_view text) {
  std::vector<std::string> fields(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') {
      fields.emplace_back();
      continue;
    }
    fields.back() += text[i];
    if (text[i] == '\\' && i + 1 < text.size()) fields.back() += text[++i];
  }
  return fields;
}

template <typename Integer>
Integer parse_field(std::string_view field, const std::string& text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw base::UsageError(fmt::format("problem field {}='{}': expected a whole number", field, text));
  }
  return value;
}

double parse_real_field(std::string_view field, const std::string& text) {
  const std::optional<double> value = base::parse_double(text);
  if (!value) throw base::UsageError(fmt::format("problem field {}='{}': expected a number", field, text));
  return *value;
}

constexpr std::array<std::string_view, 12> kFields{"batch", "seq",   "heads", "head_size", "ffn",  "layers",
                                                   "mask",  "dtype", "eps",   "gelu",      "data", "seed"};

void set_field(Problem& problem, std::string_view field, const std::string& value) {
  if (field == "batch") problem.batch = parse_field<std::int64_t>(field, value);
  if (field == "seq") problem.seq = parse_field<std::int64_t>(field, value);
  if (field == "heads") problem.heads = parse_field<std::int64_t>(field, value);
  if (field == "head_size") problem.head_size = parse_field<std::int64_t>(field, value);
  if (field == "ffn") problem.ffn = parse_field<std::int64_t>(field, value);
  if (field == "layers") problem.layers = parse_field<int>(field, value);
  if (field == "mask") problem.mask = MaskSpec::parse(value);
  if (field == "dtype") problem.dtype = parse_dtype(value);
  if (field == "eps") problem.eps = parse_real_field(field, value);
  if (field == "gelu") problem.gelu = parse_gelu(value);
  if (field == "data") problem.data = parse_data_mode(value);
  if (field == "seed") problem.seed = parse_field<std::uint64_t>(field, value);
}

}  // namespace

std::string_view name(Dtype dtype) { return kDtypeNames[static_cast<int>(dtype)]; }
std::string_view name(Gelu gelu) { return kGeluNames[static_cast<int>(gelu)]; }
std::string_view name(DataMode mode) { return kDataModeNames[static_cast<int>(mode)]; }

Dtype parse_dtype(std::string_view text) {
  return static_cast<Dtype>(find_word("--dtype", text, kDtypeNames));
}
Gelu parse_gelu(std::string_view text) { return static_cast<Gelu>(find_word("--gelu", text, kGeluNames)); }
DataMode parse_data_mode(std::string_view text) {
  return static_cast<DataMode>(find_word("--data", text, kDataModeNames));
}

std::vector<std::int64_t> Problem::shape(Tensor tensor) const {
  switch (tensor) {
    case Tensor::qkv:
      return {batch, seq, 3 * hidden()};
    case Tensor::q:
    case Tensor::k:
    case Tensor::v:
    case Tensor::context:
      return {batch, heads, seq, head_size};
    case Tensor::scores:
    case Tensor::masked_scores:
    case Tensor::probs:
      return {batch, heads, seq, seq};
    case Tensor::ffn_up:
    case Tensor::ffn_act:
      return {batch, seq, ffn};
    default:
      return {batch, seq, hidden()};
  }
}

std::int64_t Problem::elements(Tensor tensor) const {
  return static_cast<std::int64_t>(product(shape(tensor)));
}

std::pair<std::int64_t, std::int64_t> Problem::shape(Weight weight) const {
  switch (weight) {
    case Weight::w_qkv:
      return {hidden(), 3 * hidden()};
    case Weight::w_out:
      return {hidden(), hidden()};
    case Weight::w_ffn1:
      return {hidden(), ffn};
    case Weight::w_ffn2:
      return {ffn, hidden()};
  }
  throw base::InternalError("shape of an unknown weight");
}

std::int64_t Problem::elements(Parameter parameter) const {
  if (parameter == Parameter::b_qkv) return 3 * hidden();
  if (parameter == Parameter::b_ffn1) return ffn;
  return hidden();
}

void Problem::check(std::int64_t memory_bytes) const {
  const auto check_range = [](std::string_view option, std::int64_t value, std::int64_t most) {
    if (value >= 1 && value <= most) return;
    throw base::UsageError(fmt::format("{} {}: expected a whole number from 1 to {}", option, value, most));
  };
  for (const Limit& limit : kSizeLimits) check_range(limit.option, this->*limit.member, limit.most);
  check_range("--layers", layers, kMostLayers);
  if (!std::isfinite(eps) || eps < double{FLT_MIN} || eps > 1) {
    throw base::UsageError(
        fmt::format("--eps {}: expected a number from {} (the smallest normal float32) to 1",
                    base::format_shortest(eps), FLT_MIN));
  }
  check_memory(*this, memory_bytes);
}

std::string Problem::key() const {
  return fmt::format(
      "batch={} seq={} heads={} head_size={} ffn={} layers={} mask={} dtype={} eps={} gelu={} data={} "
      "seed={}",
      batch, seq, heads, head_size, ffn, layers, mask.to_string(), name(dtype), base::format_shortest(eps),
      name(gelu), name(data), seed);
}

Problem Problem::parse(std::string_view key) {
  std::map<std::string, std::string, std::less<>> values;
  for (const std::string& field : split_fields(key)) {
    const std::size_t equals = field.find('=');
    const std::string word = field.substr(0, equals);
    if (equals == std::string::npos || std::find(kFields.begin(), kFields.end(), word) == kFields.end()) {
      throw base::UsageError(fmt::format("problem '{}': '{}' is not one of the fields {}{}", key, field,
                                         fmt::join(kFields, ", "), suggestion(word, kFields)));
    }
    if (!values.emplace(word, field.substr(equals + 1)).second) {
      throw base::UsageError(fmt::format("problem '{}': field {} is given twice", key, word));
    }
  }
  Problem problem;
  for (const std::string_view field : kFields) {
    const auto found = values.find(field);
    if (found == values.end())
      throw base::UsageError(fmt::format("problem '{}': field {} is missing", key, field));
    set_field(problem, field, found->second);
  }
  return problem;
}

std::span<const Preset> presets() { return kPresets; }

const Preset& find_preset(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw base::UsageError(fmt::format("--preset '{}': expected one of {}{}", name, fmt::join(names, ", "),
                                     suggestion(name, names)));
}

}  // namespace fusetune::block
