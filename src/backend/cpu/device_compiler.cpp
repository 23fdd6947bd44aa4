#include "backend/cpu/device_compiler.h"

#include <utility>

#include "base/error.h"

namespace fusetune::backend::cpu {
namespace {

std::vector<codegen::KernelSource> sources_of(std::span<const codegen::AnyKernel> kernels) {
  std::vector<codegen::KernelSource> sources;
  sources.reserve(kernels.size());
  for (const codegen::AnyKernel& kernel : kernels) {
    if (kernel.cpu() == nullptr) throw base::InternalError("a GPU's kernel was given to the C++ compiler");
    sources.push_back(*kernel.cpu());
  }
  return sources;
}

class CpuDeviceCompiler final : public DeviceCompiler {
 public:
  CpuDeviceCompiler(Compiler compiler, lower::Isa isa, CompileOptions options)
      : compiler_(std::move(compiler), isa, std::move(options)) {}

  std::vector<backend::CompileResult> compile(std::span<const codegen::AnyKernel> kernels,
                                              const std::function<void(int, int)>& progress) override {
    std::vector<backend::CompileResult> results;
    for (CompileResult& result : compiler_.compile(sources_of(kernels), progress)) {
      backend::CompileResult& converted = results.emplace_back();
      converted.status = result.status;
      converted.log = std::move(result.log);
      if (result.status != CompileResult::Status::ok) continue;
      converted.kernel = {std::move(result.kernel.source), std::move(result.kernel.library),
                          result.kernel.compile_seconds};
    }
    return results;
  }

  std::size_t count_missing(std::span<const codegen::AnyKernel> kernels) const override {
    return compiler_.count_missing(sources_of(kernels));
  }

 private:
  KernelCompiler compiler_;
};

}  // namespace

std::unique_ptr<DeviceCompiler> make_device_compiler(Compiler compiler, lower::Isa isa,
                                                     CompileOptions options) {
  return std::make_unique<CpuDeviceCompiler>(std::move(compiler), isa, std::move(options));
}

}  // namespace fusetune::backend::cpu
