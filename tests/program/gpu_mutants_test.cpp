// Does the emulator's checked mode find what is wrong with a kernel? Every synchronisation of the building
// blocks and of generated kernels is deleted, one at a time, and every bound moved by one: each such mutant
// must fail in one of the kernels that use it, or be listed as equivalent, with the reason.
//
// Built twice: with FUSETUNE_EVERY_MUTANT for tools/test --full, else a sample of the mutants.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <map>
#include <regex>

#include "codegen/kernel_source.h"
#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using backend::simt::ThreadOrder;
using block::Dtype;

// --------------------------------------------------------------------------------------------- mutants

/// One change of one file's text.
struct Mutant {
  std::string file;    // "cuda/gemm.h"; for the generated part the name of its subject
  std::string what;    // "block_sync()", "row < M -> row <= M"
  int occurrence = 0;  // of the same change in the file, from 1 on
  std::string line;    // number and text
  std::size_t begin = 0, length = 0;
  std::string replacement;

  std::string name() const { return file + " " + what + " #" + std::to_string(occurrence); }
};

std::string line_at(std::string_view text, std::size_t at) {
  const auto number = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const std::size_t begin = text.rfind('\n', at) + 1, first = text.find_first_not_of(' ', begin);
  return std::to_string(number) + ": " + std::string(text.substr(first, text.find('\n', at) - first));
}

bool in_comment(std::string_view text, std::size_t at) {
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, at - begin).find("//") != std::string_view::npos;
}

class MutantList {
 public:
  MutantList(std::string file, std::string_view text) : file_(std::move(file)), text_(text) {}

  void add(const std::string& what, std::size_t begin, std::size_t length, const std::string& replacement) {
    found_.push_back({file_, what, ++occurrences_[what], line_at(text_, begin), begin, length, replacement});
  }
  std::string_view text() const { return text_; }
  std::vector<Mutant> take() { return std::move(found_); }

 private:
  std::string file_;
  std::string_view text_;
  std::map<std::string, int> occurrences_;
  std::vector<Mutant> found_;
};

/// f(position, match) for the pattern's matches outside of comments.
template <class F>
void for_matches(std::string_view text, const std::string& pattern, const F& f) {
  const std::regex regex(pattern);
  for (std::cregex_iterator i(text.data(), text.data() + text.size(), regex), end; i != end; ++i)
    if (!in_comment(text, static_cast<std::size_t>(i->position())))
      f(static_cast<std::size_t>(i->position()), i->str());
}

std::size_t end_of_call(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open;; ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at + 1;
  }
}

/// Without one of its synchronisations. Of several blocks each then takes itself for the last.
void delete_synchronisation(MutantList& list) {
  const std::string calls =
      R"((block_sync|warp_sync|copy_async_wait<[^>]*>|copy_async_commit|grid_barrier|counter_add|counter_wait)"
      R"(|counter_last|reset_counters<[^>]*>|hand\.(before|after)|RowCounters\{[^}]*\}\.(await|publish))\()";
  for_matches(list.text(), calls, [&](std::size_t at, const std::string& call) {
    const std::size_t end = end_of_call(list.text(), at + call.size() - 1);
    list.add("without " + call + ")", at, end - at, call == "counter_last(" ? "true" : "");
  });
}

/// Bounds one too large.
void move_bounds(MutantList& list) {
  for_matches(list.text(), R"([\w.]+( \+ [\w.*() ]+)? < [\w.]+)", [&](std::size_t at, const std::string& less) {
    const std::size_t sign = less.find(" < ") + 1;
    list.add(less + " -> <=", at + sign, 1, "<=");
  });
}

// --------------------------------------------------------------------------------------------- subjects

/// A kernel on a problem.
struct Subject {
  const Case* where;
  plan::SegmentVariant variant;
  const char* schedule;

  codegen::GpuKernel kernel() const {
    return codegen::generate_gpu(variant, lower::GpuSchedule::parse(schedule), where->problem(), small_gpu());
  }
  std::string name() const { return "[" + variant.to_string() + "] " + schedule; }
};

// Two entries of three tiles of keys, of which the second is mostly padding: rows, and whole rows of mask
// tiles, that see nothing.
constexpr const char* kPadded = "sliding:window=5,padding_lengths=131/50";
const Case kLong{.dtype = Dtype::f32, .seq = 131, .heads = 2, .head_size = 17, .ffn = 75, .mask = kPadded};
const Case kLongHalf{.dtype = Dtype::f16, .seq = 131, .heads = 2, .head_size = 16, .ffn = 75, .mask = "causal"};
const Case kShort{.dtype = Dtype::f32,
                  .seq = 37,
                  .heads = 1,
                  .head_size = 41,
                  .ffn = 75,
                  .mask = "sliding:window=5,padding_lengths=37/20"};

/// What no query sees must not matter, so it is NaN.
block::BlockData data_of(const Case& where) {
  block::BlockData data = where.data();
  const block::Problem problem = where.problem();
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  if (!mask.has_padding()) return data;
  const auto hidden = static_cast<std::size_t>(problem.hidden());
  for (std::int64_t b = 0; b < problem.batch; ++b)
    for (std::int64_t s = mask.length(b); s < problem.seq; ++s)
      std::fill_n(data.hidden.begin() + (b * problem.seq + s) * problem.hidden(), hidden,
                  std::numeric_limits<float>::quiet_NaN());
  return data;
}

/// Checks kernels of any of the problems.
class Checker {
 public:
  /// What is wrong with a kernel; empty: nothing.
  std::string check(const Subject& subject, const measure::EmulatedKernel& kernel) {
    for (const ThreadOrder order : {ThreadOrder::forward, ThreadOrder::reverse, ThreadOrder::random}) {
      const measure::CheckResult result = emulation(*subject.where, order).check_segment(kernel);
      if (result.outcome != measure::Outcome::ok) return result.message;
    }
    return {};
  }

 private:
  measure::Emulation& emulation(const Case& where, ThreadOrder order) {
    auto& emulation = emulations_[{&where, order}];
    if (emulation != nullptr) return *emulation;
    measure::EmulationOptions options;
    options.mode = backend::simt::Mode::checked;
    options.run.order = order;
    options.run.resident_blocks = 2;
    options.run.timeout_seconds = 20;
    emulation = std::make_unique<measure::Emulation>(where.problem(), data_of(where), options);
    return *emulation;
  }

  std::map<std::pair<const Case*, ThreadOrder>, std::unique_ptr<measure::Emulation>> emulations_;
};

/// One file's mutants, and kernels of which some must fail under each.
struct Suite {
  std::string file;
  std::vector<Subject> subjects;
};

constexpr plan::SegmentVariant variant(int first, int last) { return {{first, last}, false}; }
constexpr plan::SegmentVariant kAttention{{2, 6}, true};

constexpr const char* kTiles = "handoff=fused warps=4 tile=32x32x16 stages=3";
constexpr const char* kSplit = "handoff=fused warps=4 tile=32x32x16 stages=3 split=2";
constexpr const char* kTilesByRows = "handoff=fused sync=rows warps=4 tile=32x32x16 stages=3";
constexpr const char* kSplitByRows = "handoff=fused sync=rows warps=4 tile=32x32x16 stages=3 split=2";
constexpr const char* kQueries = "handoff=fused warps=4 query=32";
constexpr const char* kPipeline = "handoff=pipeline warps=2 tile=64x64x16 stages=3 rows=16 ffn=40";
constexpr const char* kNormByRows = "handoff=norm sync=rows warps=2 tile=32x32x16 stages=3 rows=16 ffn=40";
constexpr const char* kPipelineByRows =
    "handoff=pipeline sync=rows warps=2 tile=64x64x16 stages=3 query=32 rows=16 ffn=40";

const std::vector<Subject> kProducts = {{&kShort, variant(12, 12), kTiles},
                                        {&kShort, variant(12, 13), kSplit},
                                        {&kShort, variant(7, 11), kTilesByRows},
                                        {&kShort, variant(10, 14), kSplitByRows},
                                        {&kLongHalf, variant(12, 12), kTiles}};
const std::vector<Subject> kHeads = {
    {&kLong, variant(2, 6), kQueries},     {&kLong, kAttention, "warps=2 query=32"},
    {&kLong, variant(2, 2), kQueries},     {&kLong, variant(3, 5), kQueries},
    {&kLong, variant(5, 5), kQueries},     {&kLong, variant(4, 5), kQueries},
    {&kLong, variant(2, 3), kQueries},     {&kLong, variant(2, 4), kQueries},
    {&kLongHalf, variant(2, 6), kQueries}, {&kLongHalf, kAttention, "warps=8 query=128"}};
const std::vector<Subject> kRowBlocks = {
    {&kShort, variant(7, 14), kPipeline},     {&kShort, variant(10, 13), kPipeline},
    {&kShort, variant(7, 11), kTilesByRows},  {&kShort, variant(7, 10), kPipeline},
    {&kShort, variant(11, 14), kPipeline},    {&kShort, variant(6, 9), "handoff=norm warps=2 tile=32x32x16 rows=16"},
    {&kLongHalf, variant(7, 14), kPipeline}};
const std::vector<Subject> kRows = {
    {&kShort, variant(9, 9), ""},   {&kShort, variant(14, 14), ""}, {&kShort, variant(13, 14), "handoff=barrier"},
    {&kLong, variant(3, 4), ""},    {&kLong, variant(3, 3), ""},    {&kLong, variant(4, 4), ""},
    {&kShort, variant(1, 1), ""},   {&kShort, variant(6, 6), ""},   {&kShort, variant(8, 8), ""},
    {&kShort, variant(11, 11), ""}, {&kShort, variant(13, 13), ""}};
const std::vector<Subject> kHandOvers = {{&kShort, variant(7, 11), kTilesByRows},
                                         {&kShort, variant(7, 14), kNormByRows},
                                         {&kShort, variant(0, 14), kPipelineByRows}};

std::vector<Subject> all_of(std::initializer_list<std::vector<Subject>> lists) {
  std::vector<Subject> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

const Suite kSuites[] = {
    {"cuda/gemm.h", kProducts},
    {"cuda/attention.h", kHeads},
    {"cuda/row_block.h", kRowBlocks},
    {"cuda/sync.h", kHandOvers},
    {"cuda/rows.h", kRows},
    {"cuda/tile.h", all_of({kProducts, kRows})},
    {"cuda/stores.h", all_of({kProducts, kRows})},
};

// --------------------------------------------------------------------------------------------- the test

struct Equivalent {
  std::string mutant, reason;
};
const Equivalent kEquivalents[] = {
    {"", ""},
};

std::string mutated_unit(const codegen::GpuKernel& kernel, const std::string& file, const Mutant& mutant) {
  std::string unit = codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::simt);
  const std::string head = "#line 1 \"" + file + "\"\n";
  unit.replace(unit.find(head) + head.size() + mutant.begin, mutant.length, mutant.replacement);
  return unit;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Runs mutants of one file; those that a subject fails under are gone from the list afterwards.
class Hunt {
 public:
  Hunt() : compiler_(backend::cpu::find_compiler(""), backend::simt::Mode::checked, {}) {}

  void run(std::vector<Mutant>& alive, const std::string& file, const Subject& subject) {
    const codegen::GpuKernel kernel = subject.kernel();
    std::vector<std::string> units;
    for (const Mutant& mutant : alive)
      units.push_back(mutated_unit(kernel, file.empty() ? kernel.symbol + ".cu" : file, mutant));
    const auto results = compiler_.compile(units);
    std::vector<Mutant> left;
    for (std::size_t i = 0; i < alive.size(); ++i) {
      const std::string problem = results[i].library == nullptr
                                      ? "does not compile"
                                      : checker_.check(subject, {kernel, results[i].library});
      if (problem.empty())
        left.push_back(alive[i]);
      else
        std::printf("%s [%s]: %s (%s)\n", alive[i].name().c_str(), alive[i].line.c_str(),
                    first_line(problem).c_str(), subject.name().c_str());
    }
    alive = std::move(left);
  }

 private:
  backend::simt::LibraryCompiler compiler_;
  Checker checker_;
};

class GpuMutants : public testing::TestWithParam<Suite> {};

TEST_P(GpuMutants, AreFound) {
  const auto& [file, subjects] = GetParam();
  MutantList list(file, codegen::building_block(file));
  delete_synchronisation(list);
  move_bounds(list);
  std::vector<Mutant> alive = list.take();
  const std::size_t count = alive.size();
  Hunt hunt;
  for (const Subject& subject : subjects) hunt.run(alive, file, subject);
  for (const Mutant& m : alive) std::printf("SURVIVES %s [%s]\n", m.name().c_str(), m.line.c_str());
  std::printf("%zu mutants, %zu left\n", count, alive.size());
}

INSTANTIATE_TEST_SUITE_P(All, GpuMutants, testing::ValuesIn(kSuites), [](const auto& info) {
  return std::regex_replace(info.param.file, std::regex("cuda/|\\.h"), "");
});

TEST(GpuMutantSubjects, AreRight) {
  Checker checker;
  for (const Suite& suite : kSuites)
    for (const Subject& subject : suite.subjects)
      for (const auto& kernel : compile({subject.kernel()})) {
        const auto t = time(nullptr);
        EXPECT_EQ(checker.check(subject, kernel), "") << subject.name();
        std::printf("%s %ld s\n", subject.name().c_str(), long(time(nullptr) - t));
      }
}

}  // namespace
}  // namespace fusetune::gpu_test
