// Does the emulator's checked mode find what is wrong with a kernel? Every synchronisation of the building
// blocks and of generated kernels is deleted, one at a time, every bound of a loop or a test is moved by one,
// and other places are changed (kEdits): each such mutant must fail in one of the kernels that use it, or be
// listed as equivalent, with the reason.
//
// Built twice: with FUSETUNE_EVERY_MUTANT for tools/test --full, else for a sample of the mutants.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <regex>
#include <set>

#include "block/npy.h"
#include "codegen/kernel_source.h"
#include "program/gpu_kernels.h"

namespace fusetune::gpu_test {
namespace {

using backend::simt::ThreadOrder;
using block::Dtype;

// --------------------------------------------------------------------------------------------- mutants

/// One change of one file's text.
struct Mutant {
  std::string name;  // "cuda/gemm.h: without block_sync() #2": the file, the change, which of its places
  std::string line;  // number and text
  std::size_t begin = 0, length = 0;
  std::string replacement;
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

/// The mutants of one file, as they are thought of.
class MutantList {
 public:
  MutantList(std::string file, std::string_view text) : file_(std::move(file)), text_(text) {}

  void add(const std::string& change, std::size_t begin, std::size_t length, const std::string& replacement) {
    const std::string name = file_ + ": " + change + " #" + std::to_string(++occurrences_[change]);
    found_.push_back({name, line_at(text_, begin), begin, length, replacement});
  }
  const std::string& file() const { return file_; }
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

/// Without one of its synchronisations. Without counter_last() each block takes itself for the last.
void delete_synchronisations(MutantList& list) {
  const std::string calls =
      R"((block_sync|warp_sync|copy_async_wait<[^>]*>|copy_async_commit|grid_barrier|counter_add)"
      R"(|counter_wait|counter_last|reset_counters<[^>]*>|hand\.(before|after))"
      R"(|RowCounters\{[^}]*\}\.(await|publish))\()";
  for_matches(list.text(), calls, [&](std::size_t at, const std::string& call) {
    const std::size_t end = end_of_call(list.text(), at + call.size() - 1);
    list.add("without " + call + ")", at, end - at, call == "counter_last(" ? "true" : "");
  });
}

/// A bound one too large.
void move_bounds(MutantList& list) {
  for_matches(list.text(), R"([\w.]+( [+*] [\w.*() ]+)? < [\w.]+)",
              [&](std::size_t at, const std::string& less) {
                const std::size_t sign = less.find(" < ") + 1;
                list.add(less + " -> <=", at + sign, 1, "<=");
              });
}

/// Other changes, at each place where a file has the text.
struct Edit {
  const char *file, *from, *to;
};
constexpr Edit kEdits[] = {
    // Pipelines one step too deep or too eager.
    {"cuda/gemm.h", "ahead = Tile::kStages - 1", "ahead = Tile::kStages"},
    {"cuda/gemm.h", "copy_async_wait<ahead - 1>", "copy_async_wait<ahead>"},
    {"cuda/row_block.h", "ahead = Tile::kStages - 1", "ahead = Tile::kStages"},
    {"cuda/row_block.h", "copy_async_wait<ahead - 1>", "copy_async_wait<ahead>"},
    {"cuda/attention.h", "copy_async_wait<1>", "copy_async_wait<2>"},
    // Parts of k, of rows, of sums.
    {"cuda/gemm.h", "min_of(split * part, K)", "split * part"},
    {"cuda/gemm.h", "min_of((split + 1) * part, K)", "(split + 1) * part"},
    {"cuda/gemm.h", "hand.after(row0, min_of(row0 + Tile::kRows, M))",
     "hand.after(row0, row0 + Tile::kRows)"},
    {"cuda/sync.h", "min_of(end, (g + 1) * kRowGroup)", "(g + 1) * kRowGroup"},
    {"cuda/sync.h", "max_of(begin, g * kRowGroup)", "g * kRowGroup"},
    {"cuda/sync.h", "* u32(parts)", ""},
    {"cuda/row_block.h", "if (add)", "if (false)"},
    // What fills a tile where the matrix has nothing, and keys that no query sees: zero.
    {"cuda/tile.h", "(shared, global, valid);", "(shared, global, true);"},
    {"cuda/tile.h", "valid ? *global : T{}", "*global"},
    {"cuda/tile.h", "(valid ? i64(row) * Columns + column : 0)", "i64(row) * Columns + column"},
    {"cuda/tile.h", "(valid ? i64(row) * Stride + column : 0)", "i64(row) * Stride + column"},
    {"cuda/tile.h", "(valid ? (head * S + row % S) * W + column % W : 0)",
     "(head * S + row % S) * W + column % W"},
    {"cuda/tile.h", "shared[i] = valid ?", "shared[i] = true ?"},
    {"cuda/tile.h", "valid && used[row] != 0", "valid"},
    {"cuda/tile.h", "valid && (used == nullptr || used[row] != 0)", "valid"},
    {"cuda/row_block.h", "(inside ? D : 0)", "D"},
    {"cuda/row_block.h", "c < round_up(D, Tile::kDepth)", "c < D"},
    {"cuda/row_block.h", "column < columns ?", "true ?"},
    {"cuda/row_block.h", "column + 1 < columns ?", "true ?"},
    // Indices of keys and of the mask.
    {"cuda/attention.h", "tile * kKeys + column0 + c", "tile * 32 + column0 + c"},
    {"cuda/attention.h", "tile * kKeys, S, 0, W", "tile * 32, S, 0, W"},
    {"cuda/attention.h", "tile * kKeys, S,\n", "tile * 32, S,\n"},
    {"cuda/attention.h", "kScoreLd + tile * kKeys", "kScoreLd + tile * 32"},
    {"cuda/attention.h", "(s + Head::warp_row()) % 64", "(s + Head::warp_row()) % 32"},
    {"cuda/attention.h", "min_of(s + Head::warp_row(), S - 1)", "s + Head::warp_row()"},
    {"cuda/attention.h", "m.entries == 1 ? 0 : b", "0"},
    {"cuda/attention.h", "m.entries == 1 ? 0 : b", "b"},
    {"cuda/attention.h", "i64(bitmap) * 64", "i64(bitmap) * 32"},
    {"cuda/attention.h", "8 * j + lane % 4 * 2 + e) & 1", "8 * j + lane % 4 + e) & 1"},
    {"cuda/rows.h", "m.entries == 1 ? 0 : b", "0"},
    {"cuda/rows.h", "m.entries == 1 ? 0 : b", "b"},
    {"cuda/rows.h", "i64(bitmap) * 64", "i64(bitmap) * 32"},
    {"cuda/rows.h", "query % 64", "query % 32"},
    {"cuda/rows.h", "query / 64", "query / 32"},
    {"cuda/rows.h", "column += 64", "column += 32"},
    {"cuda/rows.h", "column / 64", "column / 32"},
    {"cuda/rows.h", "j % 64", "j % 32"},
    {"cuda/rows.h", "min_of(column + 64, S)", "column + 64"},
    {"cuda/rows.h", "row % S >= mask.length", "row % S > mask.length"},
    {"cuda/rows.h", "mask.length[row / S]", "mask.length[0]"},
    // Rows without a visible key, running peaks, means.
    {"cuda/attention.h", "top == -infinity() ? 0.0f : top", "top"},
    {"cuda/attention.h", "total > 0 ? 1.0f / total : 0.0f", "1.0f / total"},
    {"cuda/attention.h", "peak[half] = top;", ""},
    {"cuda/attention.h", "context.v[0][j][2 * half] *= scale;", ""},
    {"cuda/attention.h", "sum[half] * scale", "sum[half]"},
    {"cuda/rows.h", "hidden = peak == -infinity()", "hidden = false"},
    {"cuda/rows.h", "(read(j) - peak)", "read(j)"},
    {"cuda/rows.h", "/ float(D)", "/ float(D + 1)"},
    {"cuda/rows.h", "mask = 16;", "mask = 8;"},
    {"cuda/rows.h", "shuffle(lane == 0 ? value(0) : 0.0f, 0)", "0.0f"},
    {"cuda/stores.h", "load_pair<false>(bias + column", "load_pair<false>(bias"},
    {"cuda/stores.h", "N % 2 == 0 || column + 1 < N", "true"},
    // Which of a tile's elements a lane has.
    {"cuda/mma.h", "k + lane % 16", "k + lane % 8"},
    {"cuda/mma.h", "* Ld + column + lane / 16 * 8)", "* Ld + column)"},
    {"cuda/mma.h", "column + lane / 16 * 8 + lane % 8", "column + lane % 8"},
    {"cuda/mma.h", "k + lane / 8 % 2 * 8", "k"},
    {"cuda/mma.h", "pair[2], pair[3]", "pair[3], pair[2]"},
    {"cuda/mma.h", "16 * i + lane % 16", "16 * i + lane % 8"},
    {"cuda/mma.h", "k + lane / 16 * 8", "k"},
    {"cuda/mma.h", "row + e % 2 * 8", "row + e / 2 * 8"},
    {"cuda/mma.h", "k + e / 2 * 8 + lane % 4 * 2", "k + lane % 4 * 2"},
    {"cuda/mma.h", "lane_index() % 4 * 2", "lane_index() % 4"},
    {"cuda/mma.h", "16 * i + 8 * half + row", "16 * i + row"},
    {"cuda/mma.h", "* b.y", "* b.x"},
    {"cuda/mma.h", "(column + 1) * Ld", "column * Ld"},
    {"cuda/mma.h", "e == 2 ? q.z", "e == 2 ? q.y"},
    {"cuda/mma.h", "pack_pair<T>(left[2], left[3])", "pack_pair<T>(left[0], left[1])"},
    {"cuda/mma.h", "p.v[0][k / 8 + 1]", "p.v[0][k / 8]"},
    {"cuda/mma.h", "/ 4 * 4 + e / 2", "/ 4 * 4 + e % 4"},
    {"cuda/mma.h", "p.v[0][block][2 + e % 2]", "p.v[0][block][e % 2]"},
};

void edit(MutantList& list) {
  for (const Edit& edit : kEdits) {
    if (list.file() != edit.file) continue;
    const std::string from = edit.from;
    for (std::size_t at = list.text().find(from); at != std::string::npos;
         at = list.text().find(from, at + 1))
      list.add(from + " -> " + edit.to, at, from.size(), edit.to);
  }
}

// --------------------------------------------------------------------------------------------- subjects

/// A kernel on a problem.
struct Subject {
  const Case* where;
  plan::SegmentVariant variant;
  const char* schedule;

  std::string name() const { return variant.to_string() + " " + schedule; }
};

constexpr const char* kHiddenRows = "hidden rows";  // a file, written by the test

// Two entries of three tiles of keys, the second mostly padding: rows, and whole rows of mask tiles, that see
// nothing. Logits so large that a wrong peak tells.
const Case kLong{
    .seq = 131, .head_size = 17, .ffn = 75, .mask = "sliding:window=5,padding_lengths=131/50", .logits = 16};
const Case kLongHalf{.dtype = Dtype::f16, .seq = 131, .head_size = 16, .ffn = 75, .mask = "causal"};
const Case kHidden{.seq = 65, .heads = 1, .head_size = 17, .ffn = 75, .mask = kHiddenRows};
const Case kShort{
    .seq = 37, .heads = 1, .head_size = 41, .ffn = 75, .mask = "sliding:window=5,padding_lengths=37/20"};
const Case kShortHalf{.dtype = Dtype::f16, .seq = 37, .heads = 1, .head_size = 41, .ffn = 75};
// Widths that are even and no multiple of a tile; as many tokens as a group of rows has.
const Case kEven{.dtype = Dtype::f16, .seq = 32, .head_size = 20, .ffn = 76, .mask = "causal"};
// Each query sees itself only, and the peaks of neighbouring rows are hundreds apart.
const Case kApart{
    .seq = 37, .heads = 1, .head_size = 17, .ffn = 20, .mask = "sliding:window=0", .logits = 64};
// Rows of LayerNorm that differ in their last digits only; see data_of().
const Case kSteps{.seq = 3, .heads = 1, .head_size = 16, .ffn = 1};
// Fewer rows than a block takes.
const Case kTiny{.seq = 5, .heads = 1, .head_size = 17, .ffn = 20};
// A row of LayerNorm that registers do not hold.
const Case kWide{.seq = 3, .heads = 21, .head_size = 99, .ffn = 1};

constexpr plan::SegmentVariant variant(int first, int last) { return {{first, last}, false}; }
constexpr plan::SegmentVariant kAttention{{2, 6}, true};

constexpr const char* kBarriers = "handoff=barrier warps=4 tile=32x32x16 query=32";
constexpr const char* kTiles = "handoff=fused warps=4 tile=32x32x16 stages=3 query=32";
constexpr const char* kSplit = "handoff=fused warps=4 tile=32x32x16 stages=3 split=2";
constexpr const char* kTilesByRows = "handoff=fused sync=rows warps=4 tile=32x32x16 stages=3 query=32";
constexpr const char* kSplitByRows = "handoff=fused sync=rows warps=4 tile=32x32x16 stages=3 split=2";
constexpr const char* kNorm = "handoff=norm warps=2 tile=32x32x16 stages=3 rows=16";
constexpr const char* kNormByRows = "handoff=norm sync=rows warps=2 tile=32x32x16 stages=3 rows=16 ffn=40";
constexpr const char* kPipeline = "handoff=pipeline warps=2 tile=64x64x16 stages=3 rows=16 ffn=40";
constexpr const char* kWidePipeline = "handoff=pipeline warps=2 tile=64x128x16 stages=2 rows=16 ffn=40";
constexpr const char* kPipelineByRows =
    "handoff=pipeline sync=rows warps=2 tile=64x64x16 stages=3 query=32 rows=16 ffn=40";
constexpr const char* kQueries = "warps=4 query=32";
constexpr const char* kQueriesAlone = "warps=2 query=32";  // hand-written: 16 rows a warp

const std::vector<Subject> kProducts{
    {&kShort, variant(12, 12), kTiles},      {&kShort, variant(12, 13), kSplit},
    {&kShort, variant(7, 11), kTilesByRows}, {&kShort, variant(10, 14), kSplitByRows},
    {&kEven, variant(7, 11), kTilesByRows},  {&kEven, variant(12, 13), kSplit},
    {&kShort, variant(10, 14), kTilesByRows}};
const std::vector<Subject> kHeads{
    {&kLong, variant(2, 6), kQueries},     {&kLong, kAttention, kQueriesAlone},
    {&kLong, variant(2, 2), kQueries},     {&kLong, variant(3, 5), kQueries},
    {&kLong, variant(5, 5), kQueries},     {&kLong, variant(4, 5), kQueries},
    {&kLong, variant(2, 3), kQueries},     {&kLong, variant(2, 4), kQueries},
    {&kLongHalf, variant(2, 6), kQueries}, {&kLongHalf, kAttention, "warps=8 query=128"},
    {&kEven, variant(2, 2), kQueries},     {&kEven, kAttention, kQueriesAlone},
    {&kHidden, kAttention, kQueriesAlone}, {&kApart, kAttention, kQueriesAlone}};
const std::vector<Subject> kRowBlocks{
    {&kShort, variant(7, 14), kPipeline},      {&kShort, variant(10, 13), kPipeline},
    {&kShort, variant(7, 11), kTilesByRows},   {&kShort, variant(7, 10), kPipeline},
    {&kShort, variant(11, 14), kPipeline},     {&kShort, variant(6, 9), kNorm},
    {&kEven, variant(7, 14), kPipeline},       {&kEven, variant(7, 10), kPipeline},
    {&kEven, variant(7, 11), kTilesByRows},    {&kEven, variant(7, 14), kNormByRows},
    {&kShort, variant(8, 14), kPipeline},      {&kLongHalf, variant(7, 14), kPipeline},
    {&kShort, variant(10, 13), kWidePipeline}, {&kTiny, variant(8, 14), kPipeline}};
const std::vector<Subject> kHandOvers{{&kShort, variant(7, 11), kTilesByRows},
                                      {&kShort, variant(7, 14), kNormByRows},
                                      {&kEven, variant(7, 11), kTilesByRows},
                                      {&kShort, variant(0, 14), kPipelineByRows}};
const std::vector<Subject> kRows{{&kShort, variant(9, 9), ""},
                                 {&kShort, variant(14, 14), ""},
                                 {&kShort, variant(13, 14), "handoff=barrier"},
                                 {&kLong, variant(3, 4), ""},
                                 {&kLong, variant(3, 3), ""},
                                 {&kLong, variant(4, 4), ""},
                                 {&kShort, variant(1, 1), ""},
                                 {&kEven, variant(3, 3), ""},
                                 {&kHidden, variant(3, 4), ""},
                                 {&kLong, variant(2, 6), kQueries},
                                 {&kWide, variant(9, 9), ""},
                                 {&kSteps, variant(9, 9), ""}};
const std::vector<Subject> kSources{{&kShort, variant(12, 12), kTiles}, {&kShort, variant(11, 12), kTiles},
                                    {&kShort, variant(6, 7), kTiles},   {&kShortHalf, variant(7, 7), kTiles},
                                    {&kLong, variant(2, 6), kQueries},  {&kLong, variant(1, 6), kQueries},
                                    {&kLong, variant(1, 2), kQueries}};
const std::vector<Subject> kStores{{&kShort, variant(12, 12), kTiles},
                                   {&kShort, variant(10, 11), kTiles},
                                   {&kShort, variant(12, 13), kTiles},
                                   {&kShort, variant(1, 1), ""},
                                   {&kShort, variant(0, 1), kTiles}};

// Both dtypes' products, by columns and by rows, from shared memory and from registers.
const std::vector<Subject> kFragments{
    {&kEven, variant(12, 12), kTiles},   {&kShort, variant(12, 12), kTiles},
    {&kEven, kAttention, kQueriesAlone}, {&kLong, kAttention, kQueriesAlone},
    {&kEven, variant(2, 6), kQueries},   {&kLong, variant(2, 6), kQueries}};

/// One file's mutants, and the kernels to look for them in.
struct Suite {
  std::string file;  // or a name for the generated text of its only subject
  std::vector<Subject> subjects;
  bool generated = false;
};

void PrintTo(const Suite& suite, std::ostream* out) { *out << suite.file; }

const Suite kSuites[] = {
    {"cuda/gemm.h", kProducts},
    {"cuda/attention.h", kHeads},
    {"cuda/row_block.h", kRowBlocks},
    {"cuda/sync.h", kHandOvers},
    {"cuda/mma.h", kFragments},
#ifdef FUSETUNE_EVERY_MUTANT
    {"cuda/rows.h", kRows},
    {"cuda/tile.h", kSources},
    {"cuda/stores.h", kStores},
    {"all operators apart", {{&kShort, variant(0, 14), kBarriers}}, true},
    {"all operators fused", {{&kShort, variant(0, 14), kTiles}}, true},
    {"fused by rows", {{&kShort, variant(0, 14), kTilesByRows}}, true},
    {"pipeline by rows", {{&kShort, variant(0, 14), kPipelineByRows}}, true},
    {"norm by rows", {{&kShort, variant(7, 11), kNormByRows}}, true},
#endif
};

std::vector<Mutant> mutants_of(const Suite& suite, std::string_view text) {
  MutantList list(suite.file, text);
  delete_synchronisations(list);
  if (!suite.generated) {
    move_bounds(list);
    edit(list);
  }
  return list.take();
}

// ------------------------------------------------------------------------------------- what is as good

struct Equivalent {
  const char *mutant, *reason;
};
constexpr const char* kFree = "Free: between barriers nothing waits and nobody is told";
const Equivalent kEquivalents[] = {
    {"cuda/gemm.h: min_of(split * part, K) -> split * part #1", "less than no steps are none"},
    {"cuda/attention.h: j < Head -> <= #1", "one more column, in the row's padding"},
    {"cuda/attention.h: min_of(s + Head::warp_row(), S - 1) -> s + Head::warp_row() #1",
     "TileList itself gives no tiles past the end"},
    {"cuda/row_block.h: row < M -> <= #1", "a block of no rows reads and writes nothing"},
    {"cuda/row_block.h: row0 < M -> <= #1", "a step of no rows reads and writes nothing"},
    {"cuda/row_block.h: c < round_up -> <= #1", "one more zero, in the row's padding"},
    {"cuda/rows.h: i < count -> <= #1", "the columns are tested again"},
    {"cuda/rows.h: i < count -> <= #2", "the columns are tested again"},
    {"cuda/rows.h: column < S -> <= #1", "no column is left to write"},
    {"cuda/tile.h: a < b -> <= #1", "the same for equal numbers"},
    {"cuda/tile.h: (valid ? i64(row) * Columns + column : 0) -> i64(row) * Columns + column #2",
     "an address that is not read"},
    {"cuda/tile.h: (valid ? i64(row) * Stride + column : 0) -> i64(row) * Stride + column #2",
     "an address that is not read"},
    {"cuda/mma.h: i < kRowBlocks -> <= #1",
     "zeros past a thread's own array, where nothing lies; GCC lets a first index be one past its bound"},
    {"all operators apart: without hand.before() #1", kFree},
    {"all operators apart: without hand.after() #1", kFree},
    {"all operators apart: without hand.before() #2", kFree},
    {"all operators apart: without hand.after() #2", kFree},
    {"all operators apart: without grid_barrier() #4",
     "mask_stage() and softmax_stage() give each lane the same elements; kept, for handoff=barrier is the "
     "plain "
     "form that nobody times"},
    {"all operators fused: without hand.before() #1", kFree},
    {"all operators fused: without hand.after() #1", kFree},
    {"pipeline by rows: without hand.after() #2", "the last stage tells nobody"},
    {"norm by rows: without hand.before() #1", "the first stage waits for nothing"},
};

#ifdef FUSETUNE_EVERY_MUTANT
bool chosen(const Mutant&) { return true; }
#else
bool chosen(const Mutant& mutant) {
  static const std::set<std::string> sample{
      "cuda/gemm.h: without copy_async_wait<ahead - 1>() #1",
      "cuda/gemm.h: without block_sync() #1",
      "cuda/gemm.h: without block_sync() #2",
      "cuda/gemm.h: row < M -> <= #1",
      "cuda/attention.h: without block_sync() #2",
      "cuda/attention.h: without copy_async_wait<1>() #2",
      "cuda/row_block.h: without block_sync() #2",
      "cuda/row_block.h: without block_sync() #3",
      "cuda/row_block.h: r < rows -> <= #1",
      "cuda/sync.h: without counter_wait() #1",
      "cuda/sync.h: without counter_last() #1",
      "cuda/mma.h: pair[2], pair[3] -> pair[3], pair[2] #1",
      "cuda/mma.h: half < 2 -> <= #1",
  };
  return sample.contains(mutant.name);
}
#endif

// --------------------------------------------------------------------------------------------- running

std::filesystem::path mask_file() {
  return std::filesystem::temp_directory_path() / ("fusetune_mutants_" + std::to_string(getpid()) + ".npy");
}

/// A mask that hides every key from some rows, one of them a mask tile's last.
std::string hidden_rows_file(std::int64_t seq) {
  std::vector<std::uint8_t> visible(static_cast<std::size_t>(seq * seq));
  for (std::int64_t i = 0; i < seq; ++i)
    for (std::int64_t j = 0; j < seq; ++j)
      visible[static_cast<std::size_t>(i * seq + j)] = i % 7 != 3 && i != 63 && (i + 2 * j) % 3 != 0;
  const std::vector<std::int64_t> shape{seq, seq};
  block::write_npy(mask_file(), shape, std::span<const std::uint8_t>(visible));
  return mask_file().string();
}

block::Problem problem_of(const Case& where) {
  Case resolved = where;
  if (where.mask == kHiddenRows) resolved.mask = "file:path=" + hidden_rows_file(where.seq);
  return resolved.problem();
}

/// Rows of 1000 + 0.001 i before LayerNorm.
void make_steps(block::BlockData& data, std::int64_t hidden) {
  for (std::size_t i = 0; i < data.hidden.size(); ++i)
    data.hidden[i] = 1000 + 0.001f * static_cast<float>(i % static_cast<std::size_t>(hidden));
  for (const auto weight : {block::Weight::w_qkv, block::Weight::w_out})
    std::ranges::fill(data.weights[static_cast<std::size_t>(weight)], 0.0f);
  std::ranges::fill(data.parameters[static_cast<std::size_t>(block::Parameter::b_qkv)], 0.0f);
  std::ranges::fill(data.parameters[static_cast<std::size_t>(block::Parameter::b_out)], 0.0f);
}

/// Tokens of padding must not matter to others, so they are NaN.
block::BlockData data_of(const Case& where, const block::Problem& problem) {
  Case resolved = where;
  resolved.mask = problem.mask.to_string();
  block::BlockData data = resolved.data();
  if (&where == &kSteps) make_steps(data, problem.hidden());
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  for (std::int64_t b = 0; mask.has_padding() && b < problem.batch; ++b) {
    const auto entry = data.hidden.begin() + b * problem.seq * problem.hidden();
    std::fill(entry + mask.length(b) * problem.hidden(), entry + problem.seq * problem.hidden(),
              std::numeric_limits<float>::quiet_NaN());
  }
  return data;
}

codegen::GpuKernel kernel_of(const Subject& subject) {
  return codegen::generate_gpu(subject.variant, lower::GpuSchedule::parse(subject.schedule),
                               problem_of(*subject.where), small_gpu());
}

/// Checks kernels of any of the problems.
class Checker {
 public:
  /// What is wrong with a kernel in any order of threads; empty: nothing.
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
    const block::Problem problem = problem_of(where);
    measure::EmulationOptions options;
    options.mode = backend::simt::Mode::checked;
    options.run.order = order;
    options.run.resident_blocks = 2;  // so that each has several tasks
    options.run.timeout_seconds = 20;
    emulation = std::make_unique<measure::Emulation>(problem, data_of(where, problem), options);
    return *emulation;
  }

  std::map<std::pair<const Case*, ThreadOrder>, std::unique_ptr<measure::Emulation>> emulations_;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Looks for mutants of one file in one kernel after the other.
class Hunt {
 public:
  Hunt() : compiler_(backend::cpu::find_compiler(""), backend::simt::Mode::checked, {}) {}

  /// The mutants under which the subject is right.
  std::vector<Mutant> survivors(const std::vector<Mutant>& mutants, const Suite& suite,
                                const Subject& subject) {
    const codegen::GpuKernel kernel = kernel_of(subject);
    std::vector<std::string> units;
    for (const Mutant& mutant : mutants) units.push_back(mutated(kernel, suite, mutant));
    const auto results = compiler_.compile(units);
    std::vector<Mutant> left;
    for (std::size_t i = 0; i < mutants.size(); ++i) {
      const std::string problem = results[i].library == nullptr
                                      ? "does not compile"
                                      : checker_.check(subject, {kernel, results[i].library});
      if (problem.empty())
        left.push_back(mutants[i]);
      else
        report(mutants[i], first_line(problem) + " (" + subject.name() + ")");
    }
    return left;
  }

  static void report(const Mutant& mutant, const std::string& fate) {
    std::printf("%s\n  %s\n  %s\n", mutant.name.c_str(), mutant.line.c_str(), fate.c_str());
  }

 private:
  static std::string mutated(const codegen::GpuKernel& kernel, const Suite& suite, const Mutant& mutant) {
    std::string unit = codegen::translation_unit({&kernel, 1}, codegen::GpuDialect::simt);
    const std::string head = "#line 1 \"" + (suite.generated ? kernel.symbol + ".cu" : suite.file) + "\"\n";
    return unit.replace(unit.find(head) + head.size() + mutant.begin, mutant.length, mutant.replacement);
  }

  backend::simt::LibraryCompiler compiler_;
  Checker checker_;
};

/// What was found in all, told at the end.
class Tally : public testing::Environment {
 public:
  void TearDown() override {
    std::printf("%zu mutants, %zu found, %zu equivalent\n", mutants, found, equivalent);
    std::filesystem::remove(mask_file());
  }
  std::size_t mutants = 0, found = 0, equivalent = 0;
};
Tally& tally() {
  static auto* const environment = new Tally;  // gtest's
  return *environment;
}
[[maybe_unused]] const auto* const kTally = testing::AddGlobalTestEnvironment(&tally());

const char* reason_of(const Mutant& mutant) {
  for (const Equivalent& equivalent : kEquivalents)
    if (mutant.name == equivalent.mutant) return equivalent.reason;
  return nullptr;
}

class GpuMutants : public testing::TestWithParam<Suite> {};

TEST_P(GpuMutants, AreFoundOrEquivalent) {
  const Suite& suite = GetParam();
  const std::string body = suite.generated ? kernel_of(suite.subjects.front()).body : std::string();
  std::vector<Mutant> alive =
      mutants_of(suite, suite.generated ? std::string_view(body) : codegen::building_block(suite.file));
  std::erase_if(alive, [](const Mutant& mutant) { return !chosen(mutant); });
  ASSERT_FALSE(alive.empty());
  tally().mutants += alive.size();
  tally().found += alive.size();
  Hunt hunt;
  for (const Subject& subject : suite.subjects)
    if (!alive.empty()) alive = hunt.survivors(alive, suite, subject);

  std::set<std::string> equivalent;
  for (const Mutant& mutant : alive) {
    const char* const reason = reason_of(mutant);
    EXPECT_NE(reason, nullptr) << mutant.name << "\n" << mutant.line << "\nis not found";
    if (reason == nullptr) continue;
    Hunt::report(mutant, std::string("equivalent: ") + reason);
    equivalent.insert(mutant.name);
  }
  tally().found -= alive.size();
  tally().equivalent += equivalent.size();
#ifdef FUSETUNE_EVERY_MUTANT
  for (const Equivalent& listed : kEquivalents)
    if (std::string_view(listed.mutant).starts_with(suite.file + ": ")) {
      EXPECT_TRUE(equivalent.contains(listed.mutant)) << listed.mutant << " is found, or is no mutant";
    }
#endif
}

std::string test_name(const testing::TestParamInfo<Suite>& info) {
  return std::regex_replace(std::regex_replace(info.param.file, std::regex("cuda/|\\.h"), ""),
                            std::regex(" "), "_");
}

#ifdef FUSETUNE_EVERY_MUTANT
INSTANTIATE_TEST_SUITE_P(All, GpuMutants, testing::ValuesIn(kSuites), test_name);

/// Nothing is found where nothing was changed.
TEST(GpuMutantSubjects, AreRight) {
  Checker checker;
  for (const Suite& suite : kSuites)
    for (const Subject& subject : suite.subjects)
      for (const auto& kernel : compile({kernel_of(subject)}))
        EXPECT_EQ(checker.check(subject, kernel), "") << subject.name();
}
#else
INSTANTIATE_TEST_SUITE_P(Sample, GpuMutants, testing::ValuesIn(kSuites), test_name);
#endif

}  // namespace
}  // namespace fusetune::gpu_test
