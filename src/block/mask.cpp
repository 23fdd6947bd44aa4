#include "block/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"
#include "block/npy.h"
#include "block/random.h"

namespace fusetune::block {
namespace {

// ---------------------------------------------------------------------------------------------------------------
// The pattern table and the text form
// ---------------------------------------------------------------------------------------------------------------

enum class ValueKind { integer, flag, lengths, text };

struct ParameterRule {
  std::string_view name;
  ValueKind kind = ValueKind::integer;
  std::int64_t least = 0;              // integers only
  std::string_view default_text = {};  // empty: none, or it depends on S
};

struct PatternRule {
  MaskPatternInfo info;
  std::vector<ParameterRule> parameters;
};

const ParameterRule kStep{"step", ValueKind::integer, 1};
const ParameterRule kWindow{"window", ValueKind::integer, 0, "32"};
const ParameterRule kGlobal{"global", ValueKind::integer, 0, "32"};
const ParameterRule kSeed{"seed", ValueKind::integer, 0};

/// One row per pattern: a new pattern is a row here and a painter in make_painter().
const std::vector<PatternRule>& pattern_rules() {
  static const std::vector<PatternRule> rules{
      {{"full", "", "always"}, {}},
      {{"padding", "lengths=a/b/... or avg, seed=0", "j < length[b] and i < length[b]"},
       {{"avg", ValueKind::integer, 1}, {"lengths", ValueKind::lengths}}},
      {{"causal", "", "j <= i"}, {}},
      {{"strided", "step=floor(sqrt(S))", "j <= i and ((i-j) % step == 0 or j > i-step)"}, {kStep}},
      {{"fixed", "step=floor(sqrt(S))", "j <= i and (j % step == step-1 or j - j % step > i-step)"}, {kStep}},
      {{"sliding", "window=32", "abs(i-j) <= window"}, {kWindow}},
      {{"dilated", "window=32, rate=1", "(i-j) % (rate+1) == 0 and abs(i-j) <= window*(rate+1)"},
       {kWindow, {"rate", ValueKind::integer, 0, "1"}}},
      {{"longformer", "global=32, window=32", "i < global or j < global or abs(i-j) <= window"},
       {kGlobal, kWindow}},
      {{"bigbird", "global=32, window=32, block=32, random=3, seed=0",
        "longformer, or j's key block is one of `random` drawn for i's query block"},
       {kGlobal,
        kWindow,
        {"block", ValueKind::integer, 1, "32"},
        {"random", ValueKind::integer, 0, "3"},
        {"seed", ValueKind::integer, 0, "0"}}},
      {{"block_diagonal", "block=128", "i/block == j/block"}, {{"block", ValueKind::integer, 1, "128"}}},
      {{"file", "path", "the boolean [S,S] or [B,S,S] array of a .npy file says so"},
       {{"path", ValueKind::text}, {"digest", ValueKind::text}}},
  };
  return rules;
}

/// Parameters that any pattern takes. `seed` is for padding_avg (and padding's avg).
const std::array kCombinators{ParameterRule{"causal", ValueKind::flag},
                              ParameterRule{"padding_avg", ValueKind::integer, 1},
                              ParameterRule{"padding_lengths", ValueKind::lengths}, kSeed};

/// Larger values would overflow index arithmetic and mean the same as this one.
constexpr std::int64_t kMostParameter = std::int64_t{1} << 31;

using Parameters = std::map<std::string, std::string>;

[[noreturn]] void fail(std::string_view mask, std::string_view reason) {
  throw base::UsageError(fmt::format("--mask {}: {}", mask, reason));
}

const PatternRule& find_pattern(std::string_view name) {
  std::vector<std::string_view> names;
  for (const PatternRule& rule : pattern_rules()) {
    if (rule.info.name == name) return rule;
    names.push_back(rule.info.name);
  }
  const std::string near = base::nearest(name, names);
  fail(name, fmt::format("unknown pattern; expected one of {}{}", fmt::join(names, ", "),
                         near.empty() ? "" : "; did you mean " + near + "?"));
}

const ParameterRule& find_parameter(const PatternRule& pattern, std::string_view name) {
  std::vector<std::string_view> names;
  for (const ParameterRule& rule : pattern.parameters) {
    if (rule.name == name) return rule;
    names.push_back(rule.name);
  }
  for (const ParameterRule& rule : kCombinators) {
    if (rule.name == name) return rule;
    if (std::find(names.begin(), names.end(), rule.name) == names.end()) names.push_back(rule.name);
  }
  const std::string near = base::nearest(name, names);
  fail(pattern.info.name, fmt::format("unknown parameter '{}'; it takes {}{}", name, fmt::join(names, ", "),
                                      near.empty() ? "" : "; did you mean " + near + "?"));
}

std::int64_t parse_whole(std::string_view mask, std::string_view parameter, std::string_view text,
                         std::int64_t least, std::int64_t most) {
  const std::optional<std::int64_t> value = base::parse_int(text);
  if (!value || *value < least || *value > most) {
    fail(mask, fmt::format("{}={}: expected a whole number from {} to {}", parameter, text, least, most));
  }
  return *value;
}

/// The value in its one canonical spelling.
std::string check_value(std::string_view mask, const ParameterRule& rule, const std::string& text) {
  switch (rule.kind) {
    case ValueKind::flag:
      if (text != "0" && text != "1") fail(mask, fmt::format("{}={}: expected 0 or 1", rule.name, text));
      return text;
    case ValueKind::integer: {
      const std::int64_t most = rule.name == "seed" ? INT64_MAX : kMostParameter;
      return std::to_string(parse_whole(mask, rule.name, text, rule.least, most));
    }
    case ValueKind::lengths: {
      std::vector<std::int64_t> lengths;
      for (const std::string& length : base::split(text, '/')) {
        lengths.push_back(parse_whole(mask, rule.name, length, 0, kMostParameter));
      }
      return fmt::format("{}", fmt::join(lengths, "/"));
    }
    case ValueKind::text:
      if (text.empty()) fail(mask, fmt::format("{}= is empty", rule.name));
      for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ')
          fail(mask, fmt::format("{} holds a control character", rule.name));
      }
      return text;
  }
  throw base::InternalError("unknown kind of mask parameter");
}

void rename(Parameters& parameters, const std::string& from, const std::string& to) {
  if (auto node = parameters.extract(from)) {
    node.key() = to;
    parameters.insert(std::move(node));
  }
}

/// Which lengths a canonical spec has; `padding` spells them without the prefix.
const std::string* find_length_parameter(const MaskSpec& spec, std::string_view which) {
  const std::string prefix = spec.pattern == "padding" ? "" : "padding_";
  const auto found = spec.parameters.find(prefix + std::string(which));
  return found == spec.parameters.end() ? nullptr : &found->second;
}

/// Combinations that have two spellings get one: see MaskSpec::canonical().
void unify_spelling(MaskSpec& spec) {
  Parameters& parameters = spec.parameters;
  if (spec.pattern == "padding") {
    for (const std::string which : {"avg", "lengths"}) {
      if (parameters.contains("padding_" + which)) fail("padding", "write avg or lengths, without padding_");
      rename(parameters, which, "padding_" + which);
    }
    if (!parameters.contains("padding_avg") && !parameters.contains("padding_lengths")) {
      fail("padding", "expected avg=N or lengths=a/b/...");
    }
    spec.pattern = "full";
  }
  const auto causal = parameters.find("causal");
  if (causal != parameters.end()) {
    const bool implied = spec.pattern == "causal" || spec.pattern == "strided" || spec.pattern == "fixed";
    const bool intersect = causal->second == "1";
    if (intersect && spec.pattern == "full") spec.pattern = "causal";
    if (!intersect || implied || spec.pattern == "causal") parameters.erase(causal);
  }
  if (spec.pattern == "full" &&
      (parameters.contains("padding_avg") || parameters.contains("padding_lengths"))) {
    spec.pattern = "padding";
    for (const std::string which : {"avg", "lengths"}) rename(parameters, "padding_" + which, which);
  }
}

void check_padding(MaskSpec& spec, std::string_view written) {
  const bool by_average = find_length_parameter(spec, "avg") != nullptr;
  if (by_average && find_length_parameter(spec, "lengths") != nullptr) {
    fail(written, "takes lengths or an average, not both");
  }
  const bool seeded = by_average || spec.pattern == "bigbird";
  if (seeded) {
    spec.parameters.try_emplace("seed", "0");
  } else if (spec.parameters.contains("seed")) {
    fail(written, "seed has no effect without an average length");
  }
}

std::string file_digest(const std::string& path) { return base::hash_hex(base::read_file(path)); }

std::string escape(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == ',' || c == ' ') text += '\\';
    text += c;
  }
  return text;
}

/// Splits "a=1,b=2" at commas that no backslash precedes, and takes the backslashes away.
std::vector<std::string> split_parameters(std::string_view text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') {
      parts.emplace_back();
    } else {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      parts.back() += text[i];
    }
  }
  return parts;
}

// ---------------------------------------------------------------------------------------------------------------
// Painting rows of bits
// ---------------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kAllBits = ~std::uint64_t{0};

/// One row of the bitmap. Columns outside [0, S) are clipped.
class BitRow {
 public:
  BitRow(std::uint64_t* words, std::int64_t seq) : words_(words), seq_(seq) {}

  /// Sets columns [begin, end).
  void set(std::int64_t begin, std::int64_t end) {
    visit(begin, end, [this](std::int64_t word, std::uint64_t bits) { words_[word] |= bits; });
  }
  /// Sets those of columns [begin, end) that are set in `other`.
  void set_from(const std::vector<std::uint64_t>& other, std::int64_t begin, std::int64_t end) {
    visit(begin, end, [&](std::int64_t word, std::uint64_t bits) { words_[word] |= bits & other[word]; });
  }
  /// Clears columns [begin, S).
  void clear_from(std::int64_t begin) {
    visit(begin, seq_, [this](std::int64_t word, std::uint64_t bits) { words_[word] &= ~bits; });
  }

 private:
  template <typename Action>
  void visit(std::int64_t begin, std::int64_t end, Action action) {
    begin = std::max<std::int64_t>(begin, 0);
    end = std::min(end, seq_);
    for (std::int64_t word = begin / 64; word * 64 < end && begin < end; ++word) {
      const std::int64_t low = std::max<std::int64_t>(begin - word * 64, 0);
      const std::int64_t high = std::min<std::int64_t>(end - word * 64, 64);
      action(word, (kAllBits << low) & (kAllBits >> (64 - high)));
    }
  }

  std::uint64_t* words_;
  std::int64_t seq_;
};

/// Every `step`-th column of [0, S), one bit row per starting column: comb[r] holds r, r + step, ...
/// O(S) bits are set in total, and painting from a comb is word by word.
std::vector<std::vector<std::uint64_t>> make_combs(std::int64_t step, std::int64_t seq) {
  std::vector<std::vector<std::uint64_t>> combs(std::min(step, seq),
                                                std::vector<std::uint64_t>((seq + 63) / 64));
  for (std::int64_t j = 0; j < seq; ++j) combs[j % step][j / 64] |= std::uint64_t{1} << (j % 64);
  return combs;
}

std::int64_t floor_sqrt(std::int64_t value) {
  auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root > value) --root;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

/// Draws the key blocks of one query block after another; mask.h gives the exact rule.
class RandomBlocks {
 public:
  RandomBlocks(std::int64_t blocks, std::int64_t count, std::uint64_t seed)
      : order_(blocks), count_(std::min(count, blocks)), seed_(seed) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  std::vector<std::int64_t> draw(std::int64_t query_block) {
    std::vector<std::int64_t> partners(count_);
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t t = 0; t < count_; ++t) {
      if (t % 4 == 0) {
        words = philox(seed_, static_cast<std::uint32_t>(Stream::random_blocks), query_block,
                       static_cast<std::uint32_t>(t / 4));
      }
      partners[t] = t + to_below(words[t % 4], static_cast<std::uint32_t>(std::ssize(order_) - t));
      std::swap(order_[t], order_[partners[t]]);
    }
    const std::vector<std::int64_t> drawn(order_.begin(), order_.begin() + count_);
    // Undo the swaps, so that the next draw starts from 0, 1, 2, ... without O(blocks) work.
    for (std::int64_t t = count_ - 1; t >= 0; --t) std::swap(order_[t], order_[partners[t]]);
    return drawn;
  }

 private:
  std::vector<std::int64_t> order_;
  std::int64_t count_;
  std::uint64_t seed_;
};

/// Paints the visible columns of query row i. Called with i = 0, 1, ... in order.
using Painter = std::function<void(BitRow row, std::int64_t i)>;

std::int64_t value_of(const MaskSpec& spec, const std::string& name) {
  return *base::parse_int(spec.parameters.at(name));
}

std::int64_t step_of(const MaskSpec& spec, std::int64_t seq) {
  return spec.parameters.contains("step") ? value_of(spec, "step") : floor_sqrt(seq);
}

Painter strided_painter(std::int64_t step, std::int64_t seq) {
  return [step, combs = make_combs(step, seq)](BitRow row, std::int64_t i) {
    row.set_from(combs[i % step], 0, i + 1);
    row.set(i - step + 1, i + 1);
  };
}

Painter fixed_painter(std::int64_t step, std::int64_t seq) {
  std::vector<std::uint64_t> block_ends((seq + 63) / 64);
  for (std::int64_t j = step - 1; j < seq; j += step) block_ends[j / 64] |= std::uint64_t{1} << (j % 64);
  return [step, block_ends = std::move(block_ends)](BitRow row, std::int64_t i) {
    row.set_from(block_ends, 0, i + 1);
    row.set(i - i % step, i + 1);  // of the blocks that start at i - step + 1 or later, the one that holds i
  };
}

Painter dilated_painter(std::int64_t window, std::int64_t rate, std::int64_t seq) {
  const std::int64_t step = rate + 1;
  const std::int64_t reach = std::min(window, seq) * std::min(step, seq);
  return [step, reach, combs = make_combs(step, seq)](BitRow row, std::int64_t i) {
    row.set_from(combs[i % step], i - reach, i + reach + 1);
  };
}

void paint_longformer(BitRow& row, std::int64_t i, std::int64_t global, std::int64_t window) {
  row.set(0, i < global ? INT64_MAX : global);
  row.set(i - window, i + window + 1);
}

Painter bigbird_painter(const MaskSpec& spec, std::int64_t seq) {
  const std::int64_t global = value_of(spec, "global"), window = value_of(spec, "window");
  const std::int64_t block = value_of(spec, "block");
  RandomBlocks blocks((seq + block - 1) / block, value_of(spec, "random"),
                      static_cast<std::uint64_t>(value_of(spec, "seed")));
  return [=, drawn = std::vector<std::int64_t>()](BitRow row, std::int64_t i) mutable {
    if (i % block == 0) drawn = blocks.draw(i / block);
    paint_longformer(row, i, global, window);
    for (const std::int64_t key_block : drawn) row.set(key_block * block, (key_block + 1) * block);
  };
}

Painter make_painter(const MaskSpec& spec, std::int64_t seq) {
  if (spec.pattern == "full" || spec.pattern == "padding") {
    return [seq](BitRow row, std::int64_t) { row.set(0, seq); };
  }
  if (spec.pattern == "causal") return [](BitRow row, std::int64_t i) { row.set(0, i + 1); };
  if (spec.pattern == "strided") return strided_painter(step_of(spec, seq), seq);
  if (spec.pattern == "fixed") return fixed_painter(step_of(spec, seq), seq);
  if (spec.pattern == "sliding") {
    return [window = value_of(spec, "window")](BitRow row, std::int64_t i) {
      row.set(i - window, i + window + 1);
    };
  }
  if (spec.pattern == "dilated")
    return dilated_painter(value_of(spec, "window"), value_of(spec, "rate"), seq);
  if (spec.pattern == "longformer") {
    return [global = value_of(spec, "global"), window = value_of(spec, "window")](
               BitRow row, std::int64_t i) { paint_longformer(row, i, global, window); };
  }
  if (spec.pattern == "bigbird") return bigbird_painter(spec, seq);
  if (spec.pattern == "block_diagonal") {
    return [block = value_of(spec, "block")](BitRow row, std::int64_t i) {
      row.set(i - i % block, i - i % block + block);
    };
  }
  throw base::InternalError(fmt::format("mask pattern '{}' has no painter", spec.pattern));
}

// ---------------------------------------------------------------------------------------------------------------
// Inputs of a Mask
// ---------------------------------------------------------------------------------------------------------------

std::vector<std::int64_t> listed_lengths(const std::string& text, std::int64_t batch, std::int64_t seq) {
  std::vector<std::int64_t> lengths;
  for (const std::string& length : base::split(text, '/')) lengths.push_back(*base::parse_int(length));
  if (std::ssize(lengths) != batch) {
    fail("padding", fmt::format("{} lengths for a batch of {}", lengths.size(), batch));
  }
  for (const std::int64_t length : lengths) {
    if (length > seq) fail("padding", fmt::format("length {} exceeds the sequence length {}", length, seq));
  }
  return lengths;
}

std::vector<std::int64_t> drawn_lengths(std::int64_t average, std::uint64_t seed, std::int64_t batch,
                                        std::int64_t seq) {
  if (2 * average < seq || average > seq) {
    fail("padding", fmt::format("average length {}: expected from {} to {} for a sequence length of {}",
                                average, (seq + 1) / 2, seq, seq));
  }
  const std::int64_t low = std::max<std::int64_t>(1, 2 * average - seq);
  std::vector<std::int64_t> lengths(batch);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::uint32_t word = philox(seed, static_cast<std::uint32_t>(Stream::padding_lengths), b)[0];
    lengths[b] = low + to_below(word, static_cast<std::uint32_t>(seq - low + 1));
  }
  return lengths;
}

/// Empty where nothing is padded.
std::vector<std::int64_t> padding_lengths(const MaskSpec& spec, std::int64_t batch, std::int64_t seq) {
  std::vector<std::int64_t> lengths;
  if (const std::string* listed = find_length_parameter(spec, "lengths")) {
    lengths = listed_lengths(*listed, batch, seq);
  } else if (const std::string* average = find_length_parameter(spec, "avg")) {
    lengths = drawn_lengths(*base::parse_int(*average), static_cast<std::uint64_t>(value_of(spec, "seed")),
                            batch, seq);
  }
  if (std::all_of(lengths.begin(), lengths.end(), [seq](std::int64_t length) { return length == seq; }))
    lengths.clear();
  return lengths;
}

/// The array of a `file` mask: [S,S] or [B,S,S] booleans.
NpyArray<std::uint8_t> read_file_mask(const MaskSpec& spec, std::int64_t batch, std::int64_t seq) {
  const std::string& path = spec.parameters.at("path");
  if (file_digest(path) != spec.parameters.at("digest")) {
    fail("file",
         fmt::format("{} has changed: its digest is no longer {}", path, spec.parameters.at("digest")));
  }
  NpyArray<std::uint8_t> array = read_npy_booleans(path);
  const std::vector<std::int64_t> shared{seq, seq}, each{batch, seq, seq};
  if (array.shape != shared && array.shape != each) {
    fail("file", fmt::format("{} has shape ({}); expected ({}) or ({})", path, fmt::join(array.shape, ", "),
                             fmt::join(shared, ", "), fmt::join(each, ", ")));
  }
  return array;
}

bool all_equal(std::span<const std::int64_t> values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

}  // namespace

std::span<const MaskPatternInfo> mask_patterns() {
  static const std::vector<MaskPatternInfo> rows = [] {
    std::vector<MaskPatternInfo> list;
    for (const PatternRule& rule : pattern_rules()) list.push_back(rule.info);
    return list;
  }();
  return rows;
}

MaskSpec MaskSpec::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  MaskSpec spec;
  spec.pattern = std::string(text.substr(0, colon));
  if (colon == std::string_view::npos) return spec.canonical();
  const PatternRule& rule = find_pattern(spec.pattern);
  for (const std::string& part : split_parameters(text.substr(colon + 1))) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) fail(text, fmt::format("'{}': expected parameter=value", part));
    const std::string key = part.substr(0, equals);
    find_parameter(rule, key);
    if (!spec.parameters.emplace(key, part.substr(equals + 1)).second)
      fail(text, fmt::format("{} is given twice", key));
  }
  return spec.canonical();
}

MaskSpec MaskSpec::from_research_id(int id) {
  constexpr std::array<const char*, 3> kPatterns{"causal", "strided", "fixed"};
  if (id < 0 || id > 2) {
    throw base::UsageError(fmt::format("--mask-id {}: expected 0 (causal), 1 (strided) or 2 (fixed)", id));
  }
  return MaskSpec{kPatterns[id], {}};
}

MaskSpec MaskSpec::canonical() const {
  const PatternRule& rule = find_pattern(pattern);
  MaskSpec spec{pattern, {}};
  for (const auto& [key, value] : parameters) {
    spec.parameters[key] = check_value(pattern, find_parameter(rule, key), value);
  }
  for (const ParameterRule& parameter : rule.parameters) {
    if (!parameter.default_text.empty())
      spec.parameters.try_emplace(std::string(parameter.name), parameter.default_text);
  }
  unify_spelling(spec);
  check_padding(spec, pattern);
  if (pattern == "file") {
    if (!spec.parameters.contains("path")) fail(pattern, "expected path=FILE.npy");
    if (!spec.parameters.contains("digest")) spec.parameters["digest"] = file_digest(spec.parameters["path"]);
  }
  return spec;
}

std::string MaskSpec::to_string() const {
  const MaskSpec spec = canonical();
  std::string text = spec.pattern;
  char separator = ':';
  for (const auto& [key, value] : spec.parameters) {
    text += fmt::format("{}{}={}", separator, key, escape(value));
    separator = ',';
  }
  return text;
}

Mask::Mask(const MaskSpec& written, std::int64_t batch, std::int64_t seq)
    : batch_(batch), seq_(seq), entries_(1), words_((seq + 63) / 64) {
  if (batch < 1 || seq < 1)
    fail(written.pattern, fmt::format("batch {} and sequence length {} must be positive", batch, seq));
  const MaskSpec spec = written.canonical();
  lengths_ = padding_lengths(spec, batch, seq);

  std::optional<NpyArray<std::uint8_t>> file;
  if (spec.pattern == "file") file = read_file_mask(spec, batch, seq);
  const bool one_per_entry = (file && file->shape.size() == 3) || !all_equal(lengths_);
  if (one_per_entry) entries_ = batch;

  // A pattern is painted once and copied; what differs between entries is applied to the copies.
  const std::int64_t entry_words = seq_ * words_;
  bits_.resize(entries_ * entry_words);
  if (file) {
    pack_file(file->values);
  } else {
    const Painter paint = make_painter(spec, seq);
    for (std::int64_t i = 0; i < seq_; ++i) paint(BitRow(bits_.data() + i * words_, seq_), i);
    for (std::int64_t e = 1; e < entries_; ++e)
      std::copy_n(bits_.begin(), entry_words, bits_.begin() + e * entry_words);
  }
  restrict_rows(spec.parameters.contains("causal"));
  share_equal_entries();
  find_used_keys();
}

void Mask::pack_file(std::span<const std::uint8_t> booleans) {
  const std::int64_t stored = std::ssize(booleans) / seq_;  // rows in the file: S or B*S
  for (std::int64_t r = 0; r < entries_ * seq_; ++r) {
    const std::uint8_t* source = booleans.data() + (r % stored) * seq_;
    std::uint64_t* words = bits_.data() + r * words_;
    for (std::int64_t j = 0; j < seq_; ++j) words[j / 64] |= std::uint64_t{source[j]} << (j % 64);
  }
}

void Mask::restrict_rows(bool causal) {
  for (std::int64_t e = 0; e < entries_; ++e) {
    const std::int64_t tokens = length(e);
    if (!causal && tokens == seq_) continue;
    for (std::int64_t i = 0; i < seq_; ++i) {
      const std::int64_t end = i >= tokens ? 0 : std::min(tokens, causal ? i + 1 : seq_);
      BitRow(bits_.data() + (e * seq_ + i) * words_, seq_).clear_from(end);
    }
  }
}

void Mask::share_equal_entries() {
  const std::int64_t entry_words = seq_ * words_;
  for (std::int64_t e = 1; e < entries_; ++e) {
    if (!std::equal(bits_.begin(), bits_.begin() + entry_words, bits_.begin() + e * entry_words)) return;
  }
  bits_.resize(entry_words);
  entries_ = 1;
}

void Mask::find_used_keys() {
  key_used_.assign(entries_ * seq_, 0);
  std::vector<std::uint64_t> any(words_);
  for (std::int64_t e = 0; e < entries_; ++e) {
    std::fill(any.begin(), any.end(), 0);
    for (std::int64_t i = 0; i < seq_; ++i) {
      const std::span<const std::uint64_t> words = row(e, i);
      for (std::int64_t w = 0; w < words_; ++w) any[w] |= words[w];
    }
    for (std::int64_t j = 0; j < seq_; ++j) key_used_[e * seq_ + j] = (any[j / 64] >> (j % 64)) & 1;
  }
}

std::int64_t Mask::batch() const { return batch_; }
std::int64_t Mask::seq() const { return seq_; }
std::int64_t Mask::entries() const { return entries_; }

bool Mask::visible(std::int64_t b, std::int64_t i, std::int64_t j) const {
  const std::int64_t entry = entries_ == 1 ? 0 : b;
  return (bits_[(entry * seq_ + i) * words_ + j / 64] >> (j % 64)) & 1;
}

std::span<const std::uint64_t> Mask::row(std::int64_t entry, std::int64_t i) const {
  return {bits_.data() + (entry * seq_ + i) * words_, static_cast<std::size_t>(words_)};
}

std::int64_t Mask::visible_count(std::int64_t entry) const {
  const auto begin = bits_.begin() + entry * seq_ * words_;
  return std::accumulate(begin, begin + seq_ * words_, std::int64_t{0},
                         [](std::int64_t sum, std::uint64_t word) { return sum + std::popcount(word); });
}

std::int64_t Mask::length(std::int64_t b) const { return lengths_.empty() ? seq_ : lengths_[b]; }
bool Mask::has_padding() const { return !lengths_.empty(); }

std::span<const std::uint8_t> Mask::key_used(std::int64_t entry) const {
  return {key_used_.data() + entry * seq_, static_cast<std::size_t>(seq_)};
}

// ---------------------------------------------------------------------------------------------------------------
// Two-level storage
// ---------------------------------------------------------------------------------------------------------------

namespace {

/// What one tile row holds, per word column: the union and the intersection of its existing rows.
struct TileRowSummary {
  std::vector<std::uint64_t> any, all;

  TileRowSummary(const Mask& mask, std::int64_t entry, std::int64_t first_row, std::int64_t last_row,
                 std::int64_t words)
      : any(words, 0), all(words, kAllBits) {
    for (std::int64_t i = first_row; i < last_row; ++i) {
      const std::span<const std::uint64_t> row = mask.row(entry, i);
      for (std::size_t w = 0; w < row.size(); ++w) {
        any[w] |= row[w];
        all[w] &= row[w];
      }
      // Words past the row's last one belong to no key.
      std::fill(all.begin() + std::ssize(row), all.end(), 0);
    }
  }
};

void append_bitmap(const Mask& mask, std::int64_t entry, std::int64_t first_row, std::int64_t first_word,
                   MaskTiles& tiles) {
  const std::int64_t tile_words = tiles.tile / 64;
  std::size_t at = tiles.bits.size();
  tiles.bits.resize(at + tiles.tile * tile_words, 0);
  for (std::int64_t i = first_row; i < std::min(first_row + tiles.tile, mask.seq()); ++i) {
    const std::span<const std::uint64_t> row = mask.row(entry, i);
    const std::int64_t count = std::min<std::int64_t>(tile_words, std::ssize(row) - first_word);
    std::copy_n(row.begin() + first_word, count, tiles.bits.begin() + at);
    at += tile_words;
  }
}

}  // namespace

MaskTiles MaskTiles::build(const Mask& mask, std::int64_t tile) {
  if (tile < 64 || tile % 64 != 0) {
    throw base::InternalError(fmt::format("mask tile {} is not a positive multiple of 64", tile));
  }
  const std::int64_t seq = mask.seq(), tile_words = tile / 64;
  MaskTiles tiles;
  tiles.tile = tile;
  tiles.tile_rows = (seq + tile - 1) / tile;
  tiles.entries = mask.entries();
  tiles.row_begin.push_back(0);
  std::int32_t bitmaps = 0;
  const auto is_set = [](std::uint64_t word) { return word != 0; };
  const auto is_full = [](std::uint64_t word) { return word == kAllBits; };
  for (std::int64_t r = 0; r < tiles.entries * tiles.tile_rows; ++r) {
    const std::int64_t entry = r / tiles.tile_rows, first_row = r % tiles.tile_rows * tile;
    const TileRowSummary summary(mask, entry, first_row, std::min(first_row + tile, seq),
                                 tiles.tile_rows * tile_words);
    for (std::int64_t c = 0; c < tiles.tile_rows; ++c) {
      const std::int64_t word = c * tile_words;
      if (std::none_of(summary.any.begin() + word, summary.any.begin() + word + tile_words, is_set)) continue;
      const bool full =
          std::all_of(summary.all.begin() + word, summary.all.begin() + word + tile_words, is_full);
      tiles.column.push_back(static_cast<std::int32_t>(c));
      tiles.bitmap.push_back(full ? -1 : bitmaps++);
      if (!full) append_bitmap(mask, entry, first_row, word, tiles);
    }
    tiles.row_begin.push_back(static_cast<std::int32_t>(tiles.column.size()));
  }
  return tiles;
}

}  // namespace fusetune::block
