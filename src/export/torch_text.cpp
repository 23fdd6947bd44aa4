#include "export/torch_text.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/number.h"
#include "export/bundle_text.h"

namespace fusetune::exporting {
namespace {

/// One element type in PyTorch's words.
struct TorchElement {
  std::string_view scalar_type, method, dtype;
};

TorchElement element_of(block::Dtype dtype) {
  switch (dtype) {
    case block::Dtype::f32:
      return {"Float", "float", "float32"};
    case block::Dtype::f16:
      return {"Half", "half", "float16"};
    case block::Dtype::bf16:
      return {"BFloat16", "bfloat16", "bfloat16"};
  }
  throw base::InternalError("PyTorch's name of this element type is not known");
}

Values values_of(const BundleOrigin& origin, const TorchTarget& target) {
  const block::Problem& problem = origin.problem;
  const TorchElement element = element_of(problem.dtype);
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {{"name", origin.name},
          {"NAME", upper(origin.name)},
          {"batch", number(problem.batch)},
          {"seq", number(problem.seq)},
          {"hidden", number(problem.hidden())},
          {"heads", number(problem.heads)},
          {"ffn", number(problem.ffn)},
          {"eps", base::format_shortest(problem.eps)},
          {"gelu", std::string(block::name(problem.gelu))},
          {"element", std::string(element.scalar_type)},
          {"element_call", std::string(element.method)},
          {"torch_dtype", std::string(element.dtype)},
          {"processor", std::string(target.processor)},
          {"device", std::string(target.device)},
          {"dispatch", std::string(target.dispatch)},
          {"batches", target.batches},
          {"lengths", target.lengths}};
}

}  // namespace

void add_torch(const BundleOrigin& origin, const TorchTarget& target, Files& files) {
  Values values = values_of(origin, target);
  const std::string device = fmt::format("{}/torch_device.h.in", target.templates);
  const std::array<TemplateFile, 5> templates = {{
      {"torch/CMakeLists.txt.in", "pytorch/CMakeLists.txt"},
      {"torch/common.h.in", "pytorch/common.h"},
      {"torch/module.py.in", "pytorch/@name@_torch.py"},
      {"torch/operator.cpp.in", "pytorch/@name@_torch.cpp"},
      {device, "pytorch/device.h"},
  }};
  values["compile"] =
      fill_template(embedded(fmt::format("{}/torch_compile.py.in", target.templates)), values);
  add_templates(templates, values, files);
}

}  // namespace fusetune::exporting
