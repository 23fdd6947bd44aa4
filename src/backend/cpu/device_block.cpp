#include "backend/cpu/device_block.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/guarded_buffer.h"
#include "base/error.h"

namespace fusetune::backend::cpu {
namespace {

using block::Tensor;
using block::Weight;
using codegen::KernelSource;
using codegen::PanelLayout;

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::int64_t kParameterMultiple = 64;   // floats; the ABI's padding
constexpr std::int64_t kScratchGap = 4096 + 320;  // guard between two threads' scratch, no multiple of a page
constexpr int kMostCopies = 1024;         // enough rotation for weights of a few KiB, whatever is asked
constexpr std::int64_t kMemoryShare = 8;  // copies for one launch sequence take at most 1/8 of the memory

constexpr std::array<Weight, block::kWeightCount> kWeights = {Weight::w_qkv, Weight::w_out, Weight::w_ffn1,
                                                              Weight::w_ffn2};

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// A weight as kernels read it. Copy 0 is packed, the others are its copies.
struct PackedWeight {
  std::vector<GuardedBuffer> copies;
  std::uint64_t last_use = 0;
};
using PackedKey = std::pair<Weight, PanelLayout>;

/// What decides the pointers of an ft_args.
struct ArgumentKey {
  std::uint32_t tensors = 0;  // bit t: tensor t is declared
  std::array<std::optional<PanelLayout>, block::kWeightCount> layouts;
  int copy = 0;
  auto operator<=>(const ArgumentKey&) const = default;
};

std::uint32_t declared_tensors(const KernelSource& kernel) {
  std::uint32_t bits = 0;
  for (const auto* list : {&kernel.reads, &kernel.writes, &kernel.workspace}) {
    for (const Tensor tensor : *list) bits |= 1u << static_cast<unsigned>(tensor);
  }
  return bits;
}

void fill_with_nan(float* values, std::int64_t count) {
  std::fill_n(values, count, std::numeric_limits<float>::quiet_NaN());
}

std::string describe(const std::string& name, GuardedBuffer::Damage damage) {
  switch (damage) {
    case GuardedBuffer::Damage::before:
      return name + " (before its start)";
    case GuardedBuffer::Damage::after:
      return name + " (after its end)";
    default:
      return name + " (on both sides)";
  }
}

/// The mask as kernels read it, with the memory it points to.
class DeviceMask {
 public:
  explicit DeviceMask(const block::Mask& mask) {
    const block::MaskTiles tiles = block::MaskTiles::build(mask, 64);
    row_begin_.assign(tiles.row_begin.begin(), tiles.row_begin.end());
    column_.assign(tiles.column.begin(), tiles.column.end());
    bitmap_.assign(tiles.bitmap.begin(), tiles.bitmap.end());
    bits_.assign(tiles.bits.begin(), tiles.bits.end());
    for (std::int64_t entry = 0; entry < tiles.entries; ++entry) {
      const auto used = mask.key_used(entry);
      key_used_.insert(key_used_.end(), used.begin(), used.end());
    }
    if (mask.has_padding()) {
      for (std::int64_t b = 0; b < mask.batch(); ++b) length_.push_back(mask.length(b));
    }
    view_ = {.entries = tiles.entries,
             .tile_rows = tiles.tile_rows,
             .row_begin = row_begin_.data(),
             .column = column_.data(),
             .bitmap = bitmap_.data(),
             .bits = bits_.data(),
             .key_used = key_used_.data(),
             .length = length_.empty() ? nullptr : length_.data()};
  }
  const ft_mask& view() const { return view_; }

 private:
  std::vector<int> row_begin_, column_, bitmap_;
  std::vector<unsigned long long> bits_;
  std::vector<unsigned char> key_used_;
  std::vector<long> length_;
  ft_mask view_ = {};
};

}  // namespace

struct DeviceBlock::Impl {
  Impl(const block::Problem& the_problem, const block::Mask& the_mask, const block::BlockData& data,
       int thread_count);

  GuardedBuffer& tensor_buffer(Tensor tensor);
  PackedWeight& packed(const PackedKey& key);
  void grow(const PackedKey& key, PackedWeight& weight, int copies);
  void make_room(const PackedWeight& keep, std::int64_t bytes);
  void reserve_scratch(std::int64_t bytes_per_thread);
  int copies(const std::set<PackedKey>& keys) const;
  std::int64_t packed_bytes(const PackedKey& key) const;
  void fill(ft_args& args, const ArgumentKey& key, int copies_wanted);
  template <typename Visit>
  void for_each_buffer(Visit visit);
  bool scratch_gaps_intact() const;
  void fill_scratch_gaps();

  block::Problem problem;
  DeviceMask mask;
  int threads;
  std::array<std::vector<float>, block::kWeightCount> weights;  // unpacked: layouts come later
  std::array<std::optional<GuardedBuffer>, block::kTensorCount> tensors;
  std::vector<GuardedBuffer> parameters;
  std::map<PackedKey, PackedWeight> packed_weights;
  std::int64_t copied_bytes = 0;  // in all copies but the first of each packed weight
  std::int64_t rotation_bytes = 0;
  std::int64_t memory_bytes = probe_cpu().memory_bytes;
  std::uint64_t use_clock = 0;
  std::optional<GuardedBuffer> scratch;
  std::int64_t scratch_stride = 0;
  std::map<ArgumentKey, ft_args> arguments;  // node-based: pointers stay valid
};

DeviceBlock::Impl::Impl(const block::Problem& the_problem, const block::Mask& the_mask,
                        const block::BlockData& data, int thread_count)
    : problem(the_problem), mask(the_mask), threads(thread_count), weights(data.weights) {
  if (problem.dtype != block::Dtype::f32) {
    throw base::UsageError("the cpu backend of this version runs dtype f32, not " +
                           std::string(block::name(problem.dtype)));
  }
  for (int i = 0; i < block::kParameterCount; ++i) {
    const std::vector<float>& values = data.parameters[static_cast<std::size_t>(i)];
    const auto floats = round_up(static_cast<std::int64_t>(values.size()), kParameterMultiple);
    GuardedBuffer buffer(static_cast<std::size_t>(floats * kFloat), static_cast<unsigned>(i),
                         "parameter " + std::string(block::name(static_cast<block::Parameter>(i))));
    std::copy(values.begin(), values.end(), buffer.floats());
    parameters.push_back(std::move(buffer));
  }
  const GuardedBuffer& hidden = tensor_buffer(Tensor::hidden);
  if (data.hidden.size() * sizeof(float) != hidden.bytes()) {
    throw base::InternalError("the block's input has " + std::to_string(data.hidden.size()) +
                              " elements, its shape " + std::to_string(hidden.bytes() / sizeof(float)));
  }
  std::copy(data.hidden.begin(), data.hidden.end(), hidden.floats());
}

GuardedBuffer& DeviceBlock::Impl::tensor_buffer(Tensor tensor) {
  const auto index = static_cast<std::size_t>(tensor);
  if (!tensors[index]) {
    const std::int64_t count = problem.elements(tensor);
    tensors[index].emplace(static_cast<std::size_t>(count * kFloat), static_cast<unsigned>(index),
                           "tensor " + std::string(block::name(tensor)));
    fill_with_nan(tensors[index]->floats(), count);  // also touches the pages, which is not to be timed
  }
  return *tensors[index];
}

std::int64_t DeviceBlock::Impl::packed_bytes(const PackedKey& key) const {
  const auto [k, n] = problem.shape(key.first);
  return key.second.elements(k, n) * kFloat;
}

PackedWeight& DeviceBlock::Impl::packed(const PackedKey& key) {
  PackedWeight& weight = packed_weights[key];
  weight.last_use = ++use_clock;
  if (weight.copies.empty()) {
    const auto [k, n] = problem.shape(key.first);
    GuardedBuffer buffer(static_cast<std::size_t>(packed_bytes(key)), 0,
                         "packed weight " + std::string(block::name(key.first)));
    codegen::pack_weight(weights[static_cast<std::size_t>(key.first)].data(), k, n, key.second,
                         buffer.floats());
    weight.copies.push_back(std::move(buffer));
  }
  return weight;
}

void DeviceBlock::Impl::grow(const PackedKey& key, PackedWeight& weight, int copies) {
  const std::int64_t bytes = packed_bytes(key);
  while (static_cast<int>(weight.copies.size()) < copies) {
    make_room(weight, bytes);
    GuardedBuffer buffer(static_cast<std::size_t>(bytes), 0,
                         "copy of weight " + std::string(block::name(key.first)));
    std::memcpy(buffer.data(), weight.copies.front().data(), buffer.bytes());
    weight.copies.push_back(std::move(buffer));
    copied_bytes += bytes;
  }
}

/// Drops rotating copies that were used least recently until `bytes` more stay within twice one sequence's
/// share of the memory. Arguments that point into dropped copies fall back to copy 0, so none ever dangles.
void DeviceBlock::Impl::make_room(const PackedWeight& keep, std::int64_t bytes) {
  while (copied_bytes + bytes > 2 * memory_bytes / kMemoryShare) {
    std::map<PackedKey, PackedWeight>::value_type* oldest = nullptr;
    for (auto& entry : packed_weights) {
      if (&entry.second == &keep || entry.second.copies.size() < 2) continue;
      if (oldest == nullptr || entry.second.last_use < oldest->second.last_use) oldest = &entry;
    }
    if (oldest == nullptr) return;
    PackedWeight& weight = oldest->second;
    const auto index = static_cast<std::size_t>(oldest->first.first);
    for (auto& [argument_key, args] : arguments) {
      if (argument_key.layouts[index] == oldest->first.second)
        args.weight[index] = weight.copies.front().data();
    }
    copied_bytes -= static_cast<std::int64_t>(weight.copies.size() - 1) * packed_bytes(oldest->first);
    weight.copies.erase(weight.copies.begin() + 1, weight.copies.end());
  }
}

int DeviceBlock::Impl::copies(const std::set<PackedKey>& keys) const {
  std::int64_t once = 0;
  for (const PackedKey& key : keys) once += packed_bytes(key);
  if (once == 0 || rotation_bytes <= once) return 1;
  const std::int64_t wanted = (rotation_bytes - 1) / once + 1;  // rounded up, without overflow
  const std::int64_t affordable = std::max<std::int64_t>(1, memory_bytes / kMemoryShare / once);
  return static_cast<int>(std::min({wanted, affordable, std::int64_t{kMostCopies}}));
}

/// Scratch for all threads: [thread][stride], each followed by guard bytes up to the next.
void DeviceBlock::Impl::reserve_scratch(std::int64_t bytes_per_thread) {
  const std::int64_t stride = round_up(bytes_per_thread, 64) + kScratchGap;
  static_assert(kScratchGap % 64 == 0);
  if (scratch && stride <= scratch_stride) return;
  scratch.emplace(static_cast<std::size_t>(stride * threads), 0, "scratch");
  scratch_stride = stride;
  std::memset(scratch->data(), 0, scratch->bytes());  // touches the pages
  fill_scratch_gaps();
  for (auto& [key, args] : arguments) {
    args.scratch = reinterpret_cast<char*>(scratch->data());
    args.scratch_stride = scratch_stride;
  }
}

void DeviceBlock::Impl::fill_scratch_gaps() {
  for (int thread = 1; thread <= threads; ++thread) {
    fill_guard(scratch->data() + thread * scratch_stride - kScratchGap, kScratchGap);
  }
}

bool DeviceBlock::Impl::scratch_gaps_intact() const {
  for (int thread = 1; thread <= threads; ++thread) {
    if (!guard_intact(scratch->data() + thread * scratch_stride - kScratchGap, kScratchGap)) return false;
  }
  return true;
}

void DeviceBlock::Impl::fill(ft_args& args, const ArgumentKey& key, int copies_wanted) {
  args.batch = problem.batch;
  args.mask = mask.view();
  args.scratch = reinterpret_cast<char*>(scratch->data());
  args.scratch_stride = scratch_stride;
  for (std::size_t i = 0; i < parameters.size(); ++i) args.parameter[i] = parameters[i].floats();
  for (unsigned t = 0; t < block::kTensorCount; ++t) {
    if (key.tensors & (1u << t)) args.tensor[t] = tensor_buffer(static_cast<Tensor>(t)).data();
  }
  for (const Weight id : kWeights) {
    const auto& layout = key.layouts[static_cast<std::size_t>(id)];
    if (!layout) continue;
    const PackedKey packed_key{id, *layout};
    PackedWeight& weight = packed(packed_key);
    grow(packed_key, weight, copies_wanted);
    args.weight[static_cast<std::size_t>(id)] = weight.copies[static_cast<std::size_t>(key.copy)].data();
  }
}

/// visit(name, buffer) for everything a kernel is given a pointer to.
template <typename Visit>
void DeviceBlock::Impl::for_each_buffer(Visit visit) {
  for (unsigned t = 0; t < block::kTensorCount; ++t) {
    if (tensors[t]) visit(std::string(block::name(static_cast<Tensor>(t))), *tensors[t]);
  }
  for (unsigned p = 0; p < parameters.size(); ++p) {
    visit(std::string(block::name(static_cast<block::Parameter>(p))), parameters[p]);
  }
  for (auto& [key, weight] : packed_weights) {
    for (GuardedBuffer& copy : weight.copies) visit(std::string(block::name(key.first)), copy);
  }
  if (scratch) visit(std::string("scratch"), *scratch);
}

DeviceBlock::DeviceBlock(const block::Problem& problem, const block::Mask& mask, const block::BlockData& data,
                         int threads)
    : impl_(std::make_unique<Impl>(problem, mask, data, threads)) {}

DeviceBlock::~DeviceBlock() = default;
DeviceBlock::DeviceBlock(DeviceBlock&&) noexcept = default;
DeviceBlock& DeviceBlock::operator=(DeviceBlock&&) noexcept = default;

float* DeviceBlock::tensor(Tensor tensor) { return impl_->tensor_buffer(tensor).floats(); }

std::span<const float> DeviceBlock::tensor_view(Tensor tensor) const {
  const GuardedBuffer& buffer = impl_->tensor_buffer(tensor);
  return {buffer.floats(), buffer.bytes() / sizeof(float)};
}

void DeviceBlock::write(Tensor tensor, std::span<const double> values) {
  const GuardedBuffer& buffer = impl_->tensor_buffer(tensor);
  if (values.size() * sizeof(float) != buffer.bytes()) {
    throw base::InternalError("tensor " + std::string(block::name(tensor)) + " has " +
                              std::to_string(buffer.bytes() / sizeof(float)) + " elements and was given " +
                              std::to_string(values.size()));
  }
  std::transform(values.begin(), values.end(), buffer.floats(),
                 [](double value) { return static_cast<float>(value); });
}

void DeviceBlock::poison(Tensor tensor) {
  const GuardedBuffer& buffer = impl_->tensor_buffer(tensor);
  fill_with_nan(buffer.floats(), static_cast<std::int64_t>(buffer.bytes() / sizeof(float)));
}

std::string DeviceBlock::check_guards() const {
  std::string damaged;
  const auto add = [&damaged](const std::string& text) { damaged += (damaged.empty() ? "" : ", ") + text; };
  impl_->for_each_buffer([&](const std::string& name, GuardedBuffer& buffer) {
    const GuardedBuffer::Damage damage = buffer.damage();
    if (damage == GuardedBuffer::Damage::none) return;
    add(describe(name, damage));
    buffer.restore_guards();
  });
  if (impl_->scratch && !impl_->scratch_gaps_intact()) {
    add("scratch (past a thread's part)");
    impl_->fill_scratch_gaps();
  }
  return damaged;
}

void DeviceBlock::set_rotation_bytes(std::int64_t bytes) {
  impl_->rotation_bytes = std::max<std::int64_t>(0, bytes);
}

namespace {

void add_weights(const KernelSource& kernel, std::set<PackedKey>& weights) {
  for (const Weight weight : kWeights) {
    if (const auto& layout = kernel.layouts[static_cast<std::size_t>(weight)])
      weights.insert({weight, *layout});
  }
}

}  // namespace

const ft_args* DeviceBlock::arguments(const LoadedKernel& kernel, int copy) {
  const KernelSource& source = kernel.source();
  std::set<PackedKey> weights;
  add_weights(source, weights);
  const int index = copy % impl_->copies(weights);
  const ArgumentKey key{.tensors = declared_tensors(source), .layouts = source.layouts, .copy = index};
  impl_->reserve_scratch(source.scratch_bytes);
  ft_args& args = impl_->arguments[key];
  impl_->fill(args, key, index + 1);
  return &args;
}

int DeviceBlock::copies(std::span<const LoadedKernel* const> kernels) const {
  std::set<PackedKey> weights;
  for (const LoadedKernel* kernel : kernels) add_weights(kernel->source(), weights);
  return impl_->copies(weights);
}

}  // namespace fusetune::backend::cpu
