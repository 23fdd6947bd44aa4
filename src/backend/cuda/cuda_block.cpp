#include "backend/cuda/cuda_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "block/rounding.h"

namespace fusetune::backend::cuda {
namespace {

using block::Dtype;
using block::stored_as;
using block::Tensor;
using block::Weight;

constexpr unsigned char kPoison = 0xff;  // a NaN in every format
constexpr unsigned char kGuard = 0xa5;
constexpr std::int64_t kMaskTile = 64;
constexpr std::int64_t kShareOfMemory = 8;  // copies of weights take at most one part of so many

/// The bytes that `values` take when they are stored as `dtype`.
template <class Value>
std::vector<unsigned char> stored(Dtype dtype, std::span<const Value> values) {
  std::vector<unsigned char> bytes(values.size() * static_cast<std::size_t>(block::element_size(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i)
    block::store_element(dtype, bytes.data(), static_cast<std::int64_t>(i), static_cast<float>(values[i]));
  return bytes;
}

}  // namespace

// -------------------------------------------------------------------------------------- GuardedDeviceBuffer

GuardedDeviceBuffer::GuardedDeviceBuffer(const Context& context, std::int64_t bytes)
    : memory_(context, bytes == 0 ? 0 : bytes + 2 * kGuardBytes), bytes_(bytes) {
  if (bytes == 0) return;
  memory_.fill(kPoison);
  write_guards();
}

void GuardedDeviceBuffer::write_guards() {
  const std::vector<unsigned char> guard(static_cast<std::size_t>(kGuardBytes), kGuard);
  memory_.write(guard.data(), kGuardBytes, 0);
  memory_.write(guard.data(), kGuardBytes, kGuardBytes + bytes_);
}

void GuardedDeviceBuffer::write(const void* from) { memory_.write(from, bytes_, kGuardBytes); }
void GuardedDeviceBuffer::read(void* to) const { memory_.read(to, bytes_, kGuardBytes); }
void GuardedDeviceBuffer::fill(unsigned char value) {
  if (bytes_ > 0) memory_.fill(value, bytes_, kGuardBytes);  // without memory there are no guards either
}

bool GuardedDeviceBuffer::has_damaged_guards() {
  if (bytes_ == 0) return false;
  std::vector<unsigned char> guards(static_cast<std::size_t>(2 * kGuardBytes));
  memory_.read(guards.data(), kGuardBytes, 0);
  memory_.read(guards.data() + kGuardBytes, kGuardBytes, kGuardBytes + bytes_);
  const bool intact =
      std::all_of(guards.begin(), guards.end(), [](unsigned char byte) { return byte == kGuard; });
  if (!intact) write_guards();
  return !intact;
}

// ------------------------------------------------------------------------------------------------ CudaBlock

CudaBlock::CudaBlock(const Context& context, const block::Problem& problem, const block::Mask& mask,
                     const block::BlockData& data)
    : context_(context), problem_(problem) {
  for (int w = 0; w < block::kWeightCount; ++w) {
    const std::span<const float> values = data[static_cast<Weight>(w)];
    const std::vector<unsigned char> bytes = stored(problem.dtype, values);
    DeviceBuffer& buffer = weights_[static_cast<std::size_t>(w)].emplace_back(
        context, std::max<std::int64_t>(1, std::ssize(bytes)));
    buffer.write(bytes.data(), std::ssize(bytes));
  }
  for (int p = 0; p < block::kParameterCount; ++p)
    constants_.parameter[p] = keep<float>(data[static_cast<block::Parameter>(p)]);
  copy_mask(mask);
  constants_.batch = static_cast<int>(problem.batch);
  write(Tensor::hidden, std::span<const float>(data.hidden));
}

template <class Value>
const Value* CudaBlock::keep(std::span<const Value> values) {
  const auto bytes = static_cast<std::int64_t>(values.size_bytes());
  DeviceBuffer& buffer = constant_memory_.emplace_back(context_, std::max<std::int64_t>(bytes, 1));
  buffer.write(values.data(), bytes);
  return buffer.pointer<const Value>();
}

void CudaBlock::copy_mask(const block::Mask& mask) {
  const block::MaskTiles tiles = block::MaskTiles::build(mask, kMaskTile);
  constants_.mask.row_begin = keep<int>(tiles.row_begin);
  constants_.mask.column = keep<int>(tiles.column);
  constants_.mask.bitmap = keep<int>(tiles.bitmap);
  const std::vector<unsigned long long> bits(tiles.bits.begin(), tiles.bits.end());
  constants_.mask.bits = keep<unsigned long long>(bits);
  std::vector<unsigned char> used;
  for (std::int64_t entry = 0; entry < mask.entries(); ++entry)
    used.insert(used.end(), mask.key_used(entry).begin(), mask.key_used(entry).end());
  constants_.mask.key_used = keep<unsigned char>(used);
  constants_.mask.entries = static_cast<int>(mask.entries());
  if (!mask.has_padding()) return;
  std::vector<int> lengths;
  for (std::int64_t b = 0; b < mask.batch(); ++b) lengths.push_back(static_cast<int>(mask.length(b)));
  constants_.mask.length = keep<int>(lengths);
}

GuardedDeviceBuffer& CudaBlock::tensor(Tensor which) {
  GuardedDeviceBuffer& buffer = tensors_[static_cast<std::size_t>(which)];
  if (buffer.bytes() == 0)
    buffer = GuardedDeviceBuffer(
        context_, problem_.elements(which) * block::element_size(stored_as(which, problem_.dtype)));
  return buffer;
}

template <class Value>
void CudaBlock::write_values(Tensor which, std::span<const Value> values) {
  if (std::ssize(values) != problem_.elements(which))
    throw base::InternalError(fmt::format("writing {}: {} elements, not {}", block::name(which),
                                          values.size(), problem_.elements(which)));
  tensor(which).write(stored(stored_as(which, problem_.dtype), values).data());
}
void CudaBlock::write(Tensor which, std::span<const double> values) { write_values(which, values); }
void CudaBlock::write(Tensor which, std::span<const float> values) { write_values(which, values); }

std::vector<float> CudaBlock::read(Tensor which) {
  const Dtype dtype = stored_as(which, problem_.dtype);
  std::vector<float> values(static_cast<std::size_t>(problem_.elements(which)));
  std::vector<unsigned char> bytes(static_cast<std::size_t>(tensor(which).bytes()));
  tensor(which).read(bytes.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = block::load_element(dtype, bytes.data(), static_cast<std::int64_t>(i));
  return values;
}

void CudaBlock::poison(Tensor which) { tensor(which).fill(kPoison); }

std::string CudaBlock::check_guards() {
  std::string names;
  for (int t = 0; t < block::kTensorCount; ++t)
    if (tensors_[static_cast<std::size_t>(t)].has_damaged_guards())
      names.append(names.empty() ? "" : ", ").append(block::name(static_cast<Tensor>(t)));
  return names;
}

int CudaBlock::make_copies(std::span<const Weight> weights, std::int64_t rotation_bytes) {
  std::int64_t bytes = 0;
  for (const Weight weight : weights) bytes += weights_[static_cast<std::size_t>(weight)].front().bytes();
  if (bytes == 0) return 1;
  const std::int64_t wanted = (rotation_bytes + bytes - 1) / bytes;
  const std::int64_t most = context_.device().memory_bytes / kShareOfMemory / bytes;
  const auto copies = static_cast<std::size_t>(std::max<std::int64_t>(1, std::min(wanted, most)));
  for (const Weight weight : weights) {
    std::vector<DeviceBuffer>& buffers = weights_[static_cast<std::size_t>(weight)];
    while (buffers.size() < copies) {
      DeviceBuffer copy(context_, buffers.front().bytes());
      copy.copy_from(buffers.front());
      buffers.push_back(std::move(copy));
    }
  }
  return static_cast<int>(copies);
}

const void* CudaBlock::address(Weight which, int copy) const {
  const std::vector<DeviceBuffer>& buffers = weights_[static_cast<std::size_t>(which)];
  return buffers[static_cast<std::size_t>(copy) % buffers.size()].pointer<const void>();
}

ft_gpu_args CudaBlock::arguments(const codegen::GpuKernel& kernel, int copy) {
  ft_gpu_args arguments = constants_;
  for (const Weight weight : kernel.weights)
    arguments.weight[static_cast<int>(weight)] = address(weight, copy);
  for (const auto* list : {&kernel.reads, &kernel.writes, &kernel.workspace})
    for (const Tensor which : *list) arguments.tensor[static_cast<int>(which)] = address(which);
  return arguments;
}

}  // namespace fusetune::backend::cuda
