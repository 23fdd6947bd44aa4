#include "gpu_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "block/rounding.h"

namespace fusetune::device_check {
namespace {

using backend::cuda::DeviceBuffer;
using block::Dtype;
using block::stored_as;
using block::Tensor;

/// The bytes that `values` take when they are stored as `dtype`.
template <class Value>
std::vector<unsigned char> stored(Dtype dtype, std::span<const Value> values) {
  std::vector<unsigned char> bytes(values.size() * static_cast<std::size_t>(block::element_size(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i)
    block::store_element(dtype, bytes.data(), static_cast<std::int64_t>(i), static_cast<float>(values[i]));
  return bytes;
}

}  // namespace

GpuBlock::GpuBlock(Gpu& gpu, const block::Problem& problem, const block::Mask& mask,
                   const block::BlockData& data)
    : gpu_(gpu), problem_(problem) {
  for (int w = 0; w < block::kWeightCount; ++w) {
    const std::span<const float> values = data[static_cast<block::Weight>(w)];
    args_.weight[w] = keep<unsigned char>(stored(problem.dtype, values));
  }
  for (int p = 0; p < block::kParameterCount; ++p)
    args_.parameter[p] = keep<float>(data[static_cast<block::Parameter>(p)]);
  copy_mask(mask);
  args_.batch = static_cast<int>(problem.batch);
  write<float>(Tensor::hidden, data.hidden);
}

template <class Value>
const Value* GpuBlock::keep(std::span<const Value> values) {
  const auto bytes = static_cast<std::int64_t>(values.size_bytes());
  DeviceBuffer& buffer = constants_.emplace_back(gpu_.context(), std::max<std::int64_t>(bytes, 1));
  buffer.write(values.data(), bytes);
  return buffer.pointer<const Value>();
}

void GpuBlock::copy_mask(const block::Mask& mask) {
  const block::MaskTiles tiles = block::MaskTiles::build(mask, 64);
  args_.mask.row_begin = keep<int>(tiles.row_begin);
  args_.mask.column = keep<int>(tiles.column);
  args_.mask.bitmap = keep<int>(tiles.bitmap);
  const std::vector<unsigned long long> bits(tiles.bits.begin(), tiles.bits.end());
  args_.mask.bits = keep<unsigned long long>(bits);
  std::vector<unsigned char> used;
  for (std::int64_t entry = 0; entry < mask.entries(); ++entry)
    used.insert(used.end(), mask.key_used(entry).begin(), mask.key_used(entry).end());
  args_.mask.key_used = keep<unsigned char>(used);
  args_.mask.entries = static_cast<int>(mask.entries());
  if (!mask.has_padding()) return;
  std::vector<int> lengths;
  for (std::int64_t b = 0; b < mask.batch(); ++b) lengths.push_back(static_cast<int>(mask.length(b)));
  args_.mask.length = keep<int>(lengths);
}

DeviceBuffer& GpuBlock::tensor(Tensor which) {
  DeviceBuffer& buffer = tensors_[static_cast<std::size_t>(which)];
  if (buffer.bytes() == 0)
    buffer = DeviceBuffer(gpu_.context(),
                          problem_.elements(which) * block::element_size(stored_as(which, problem_.dtype)));
  return buffer;
}

template <class Value>
void GpuBlock::write(Tensor which, std::span<const Value> values) {
  if (std::ssize(values) != problem_.elements(which))
    throw base::InternalError(fmt::format("writing {}: {} elements, not {}", block::name(which),
                                          values.size(), problem_.elements(which)));
  const std::vector<unsigned char> bytes = stored(stored_as(which, problem_.dtype), values);
  tensor(which).write(bytes.data(), std::ssize(bytes));
}
template void GpuBlock::write(Tensor, std::span<const float>);
template void GpuBlock::write(Tensor, std::span<const double>);

std::vector<float> GpuBlock::read(Tensor which) const {
  const DeviceBuffer& buffer = tensors_[static_cast<std::size_t>(which)];
  const Dtype dtype = stored_as(which, problem_.dtype);
  std::vector<float> values(static_cast<std::size_t>(problem_.elements(which)));
  std::vector<unsigned char> bytes(static_cast<std::size_t>(buffer.bytes()));
  buffer.read(bytes.data(), buffer.bytes());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = block::load_element(dtype, bytes.data(), static_cast<std::int64_t>(i));
  return values;
}

BoundKernel GpuBlock::bind(const codegen::GpuKernel& source) {
  BoundKernel bound;
  bound.kernel = gpu_.kernel(segment_image(source), source.symbol);
  bound.needs = source.launch(problem_.batch);
  if (bound.needs.cooperative) {
    const std::int64_t resident =
        gpu_.resident_blocks(bound.kernel, bound.needs.threads, bound.needs.shared_bytes);
    bound.needs = source.launch(problem_.batch, resident);
  }
  bound.shape = {bound.needs.blocks, bound.needs.threads, bound.needs.shared_bytes, bound.needs.cooperative};
  if (bound.needs.scratch_bytes > scratch_.bytes())
    scratch_ = DeviceBuffer(gpu_.context(), bound.needs.scratch_bytes);
  if (4 * bound.needs.sync_words > sync_.bytes())
    sync_ = DeviceBuffer(gpu_.context(), 4 * bound.needs.sync_words);
  sync_.fill(0);
  bound.args = args_;
  for (const auto* list : {&source.reads, &source.writes, &source.workspace})
    for (const Tensor which : *list) bound.args.tensor[static_cast<int>(which)] = tensor(which).pointer();
  bound.args.scratch = scratch_.pointer<float>();
  bound.args.sync = sync_.pointer<unsigned>();
  return bound;
}

std::optional<std::string> GpuBlock::run(const codegen::GpuKernel& source) {
  constexpr unsigned char kPoison = 0xff;  // a NaN in every format
  const BoundKernel bound = bind(source);
  for (const auto* list : {&source.writes, &source.workspace})
    for (const Tensor which : *list) tensor(which).fill(kPoison);
  scratch_.fill(kPoison);
  gpu_.launch(bound.kernel, bound.shape, bound.args);
  gpu_.context().synchronize();
  return find_leftovers(bound.needs);
}

std::optional<std::string> GpuBlock::find_leftovers(const codegen::GpuLaunch& needs) const {
  constexpr unsigned kFlip = 0x80000000u;  // the grid barrier's word ends as 0 or this
  std::vector<unsigned> words(static_cast<std::size_t>(needs.sync_words));
  sync_.read(words.data(), 4 * needs.sync_words);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] != 0 && (i > 0 || words[i] != kFlip))
      return fmt::format("counter {} was left at {}, not zero", i, words[i]);
  return std::nullopt;
}

}  // namespace fusetune::device_check
