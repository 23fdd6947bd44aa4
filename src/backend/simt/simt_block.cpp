#include "backend/simt/simt_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/error.h"
#include "block/rounding.h"

namespace fusetune::backend::simt {
using block::Dtype;
using block::stored_as;
using block::Tensor;

struct SimtBlock::Impl {
  Impl(const block::Problem& the_problem, const block::Mask& mask, const block::BlockData& data)
      : problem(the_problem) {
    for (int w = 0; w < block::kWeightCount; ++w) copy_weight(static_cast<block::Weight>(w), data);
    for (int p = 0; p < block::kParameterCount; ++p) copy_parameter(static_cast<block::Parameter>(p), data);
    copy_mask(mask);
    args.batch = static_cast<int>(problem.batch);
    fill(Tensor::hidden, data.hidden);
  }

  void copy_weight(block::Weight weight, const block::BlockData& data) {
    const std::vector<float>& values = data[weight];
    void* const memory =
        device.allocate(static_cast<std::int64_t>(values.size()) * block::element_size(problem.dtype),
                        std::string(block::name(weight)), Access::read_only);
    for (std::size_t i = 0; i < values.size(); ++i)
      block::store_element(problem.dtype, memory, static_cast<std::int64_t>(i), values[i]);
    args.weight[static_cast<int>(weight)] = memory;
  }

  void copy_parameter(block::Parameter parameter, const block::BlockData& data) {
    const std::vector<float>& values = data[parameter];
    args.parameter[static_cast<int>(parameter)] =
        copy_array<float>(values, std::string(block::name(parameter)));
  }

  template <class To, class From>
  const To* copy_array(const From& values, const std::string& name) {
    To* const memory =
        device.allocate_array<To>(std::max<std::int64_t>(1, std::ssize(values)), name, Access::read_only);
    std::transform(values.begin(), values.end(), memory, [](auto value) { return static_cast<To>(value); });
    return memory;
  }

  void copy_mask(const block::Mask& mask) {
    const block::MaskTiles tiles = block::MaskTiles::build(mask, 64);
    std::vector<std::uint8_t> used;
    for (std::int64_t entry = 0; entry < mask.entries(); ++entry)
      used.insert(used.end(), mask.key_used(entry).begin(), mask.key_used(entry).end());
    args.mask.row_begin = copy_array<int>(tiles.row_begin, "mask row_begin");
    args.mask.column = copy_array<int>(tiles.column, "mask column");
    args.mask.bitmap = copy_array<int>(tiles.bitmap, "mask bitmap");
    args.mask.bits = copy_array<unsigned long long>(tiles.bits, "mask bits");
    args.mask.key_used = copy_array<unsigned char>(used, "mask key_used");
    args.mask.entries = static_cast<int>(mask.entries());
    if (!mask.has_padding()) return;
    std::vector<std::int64_t> lengths;
    for (std::int64_t b = 0; b < mask.batch(); ++b) lengths.push_back(mask.length(b));
    args.mask.length = copy_array<int>(lengths, "mask length");
  }

  void* tensor(Tensor which) {
    void*& memory = tensors[static_cast<std::size_t>(which)];
    if (memory == nullptr)
      memory = device.allocate(problem.elements(which) * block::element_size(stored_as(which, problem.dtype)),
                               std::string(block::name(which)));
    return memory;
  }

  template <class Values>
  void fill(Tensor which, const Values& values) {
    const Dtype dtype = stored_as(which, problem.dtype);
    void* const memory = tensor(which);
    for (std::size_t i = 0; i < values.size(); ++i)
      block::store_element(dtype, memory, static_cast<std::int64_t>(i), static_cast<float>(values[i]));
  }

  void poison(Tensor which) {
    const std::int64_t bytes = problem.elements(which) * block::element_size(stored_as(which, problem.dtype));
    std::memset(tensor(which), 0xFF, static_cast<std::size_t>(bytes));
  }

  /// Tensors of one launch: inputs cannot be written, outputs and workspace hold nothing yet.
  void ready_tensors(const codegen::GpuKernel& source) {
    std::fill(std::begin(args.tensor), std::end(args.tensor), nullptr);
    for (const Tensor which : source.reads) {
      args.tensor[static_cast<int>(which)] = tensor(which);
      device.set_access(tensor(which), Access::read_only);
    }
    for (const auto* list : {&source.writes, &source.workspace})
      for (const Tensor which : *list) {
        args.tensor[static_cast<int>(which)] = tensor(which);
        device.set_access(tensor(which), Access::uninitialised);
        poison(which);
      }
  }

  void ready_workspace(const codegen::GpuLaunch& launch) {
    if (launch.scratch_bytes > scratch_bytes) {
      scratch_bytes = launch.scratch_bytes;
      args.scratch = static_cast<float*>(device.allocate(scratch_bytes, "scratch"));
    }
    if (args.scratch != nullptr) device.set_access(args.scratch, Access::uninitialised);
    if (launch.sync_words > sync_words) {
      sync_words = launch.sync_words;
      args.sync = device.allocate_array<unsigned>(sync_words, "sync");
      std::fill_n(args.sync, sync_words, 0u);
    }
  }

  std::optional<Finding> find_leftovers(const codegen::GpuKernel& source, Mode mode) {
    if (mode == Mode::checked)
      for (const Tensor which : source.writes)
        if (const std::int64_t cells = device.unwritten(tensor(which)); cells > 0)
          return Finding{
              fmt::format("{}: {} of {} bytes of {} were never written", source.symbol, 2 * cells,
                          problem.elements(which) * block::element_size(stored_as(which, problem.dtype)),
                          block::name(which))};
    for (std::int64_t word = 1; word < sync_words; ++word)
      if (args.sync[word] != 0) {
        const unsigned left = args.sync[word];
        std::fill_n(args.sync, sync_words, 0u);
        return Finding{fmt::format("{}: counter {} was left at {}, not zero", source.symbol, word, left)};
      }
    return std::nullopt;
  }

  block::Problem problem;
  DeviceMemory device;
  ft_gpu_args args = {};
  std::array<void*, block::kTensorCount> tensors{};
  std::int64_t scratch_bytes = 0, sync_words = 0;
};

SimtBlock::SimtBlock(const block::Problem& problem, const block::Mask& mask, const block::BlockData& data)
    : impl_(std::make_unique<Impl>(problem, mask, data)) {}
SimtBlock::~SimtBlock() = default;

void SimtBlock::write(Tensor tensor, std::span<const double> values) {
  if (std::ssize(values) != impl_->problem.elements(tensor))
    throw base::InternalError(fmt::format("writing {}: {} elements, not {}", block::name(tensor),
                                          values.size(), impl_->problem.elements(tensor)));
  impl_->fill(tensor, values);
}

std::vector<float> SimtBlock::read(Tensor tensor) const {
  const Dtype dtype = stored_as(tensor, impl_->problem.dtype);
  std::vector<float> values(static_cast<std::size_t>(impl_->problem.elements(tensor)));
  const void* const memory = impl_->tensor(tensor);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = block::load_element(dtype, memory, static_cast<std::int64_t>(i));
  return values;
}

std::optional<Finding> SimtBlock::run(const codegen::GpuKernel& source, const Kernel& kernel,
                                      const RunOptions& options) {
  const codegen::GpuLaunch wanted = source.launch(impl_->problem.batch, options.resident_blocks);
  impl_->ready_tensors(source);
  impl_->ready_workspace(wanted);
  LaunchOptions launch_options;
  launch_options.blocks = static_cast<int>(wanted.blocks);
  launch_options.shared_bytes = wanted.shared_bytes;
  launch_options.cooperative = wanted.cooperative;
  launch_options.order = options.order;
  launch_options.seed = options.seed;
  launch_options.timeout_seconds = options.timeout_seconds;
  launch_options.counts = options.counts;
  if (auto finding = launch(kernel, impl_->args, impl_->device, launch_options)) {
    if (impl_->args.sync != nullptr) std::fill_n(impl_->args.sync, impl_->sync_words, 0u);
    return finding;
  }
  return impl_->find_leftovers(source, kernel.library->mode());
}

}  // namespace fusetune::backend::simt
