#include "backend/cuda/device_compiler.h"

#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace fusetune::backend::cuda {
namespace {

class CudaDeviceCompiler final : public DeviceCompiler {
 public:
  CudaDeviceCompiler(CudaCompiler compiler, const Architecture& architecture, CubinOptions options,
                     std::function<void()> poll)
      : compiler_(std::move(compiler), std::move(options)),
        architecture_(architecture),
        poll_(std::move(poll)) {}

  std::vector<CompileResult> compile(std::span<const codegen::AnyKernel> kernels,
                                     const std::function<void(int, int)>& progress) override {
    const std::vector<CubinResult> cubins = compiler_.compile(sources_of(kernels), [&](int done, int total) {
      if (poll_) poll_();
      if (progress) progress(done, total);
    });
    std::vector<CompileResult> results;
    std::size_t compiled = 0;
    for (const codegen::AnyKernel& kernel : kernels)
      results.push_back(kernel.library() != nullptr ? CompileResult{.kernel = {kernel, {}, 0}, .log = {}}
                                                    : result_of(kernel, cubins[compiled++]));
    return results;
  }

  std::size_t count_missing(std::span<const codegen::AnyKernel> kernels) const override {
    return compiler_.count_missing(sources_of(kernels));
  }

 private:
  /// Of all but a library's products, of which nothing is to be compiled.
  std::vector<CubinSource> sources_of(std::span<const codegen::AnyKernel> kernels) const {
    std::vector<CubinSource> sources;
    for (const codegen::AnyKernel& kernel : kernels) {
      if (kernel.library() != nullptr) continue;
      if (kernel.gpu() == nullptr) throw base::InternalError("a CPU's kernel was given to NVRTC");
      const codegen::GpuKernel& gpu = *kernel.gpu();
      sources.push_back({gpu.variant.to_string(), gpu.symbol,
                         codegen::translation_unit({&gpu, 1}, codegen::GpuDialect::cuda), architecture_});
    }
    return sources;
  }

  CompileResult result_of(const codegen::AnyKernel& kernel, const CubinResult& cubin) const {
    CompileResult result;
    result.status = cubin.status;
    if (cubin.status == CubinResult::Status::ok)
      result.kernel = {kernel, write_image(*kernel.gpu(), cubin.cubin), cubin.compile_seconds};
    else
      result.log = cubin.log;
    return result;
  }

  /// For the workers: the cache's entries hold more than the image.
  std::filesystem::path write_image(const codegen::GpuKernel& kernel, const std::string& cubin) const {
    std::filesystem::path path = images_.path() / (kernel.symbol + ".cubin");
    if (!std::filesystem::exists(path)) base::write_file_atomic(path, cubin);
    return path;
  }

  CubinCompiler compiler_;
  Architecture architecture_;
  std::function<void()> poll_;
  base::TemporaryDirectory images_;
};

}  // namespace

std::unique_ptr<DeviceCompiler> make_device_compiler(CudaCompiler compiler, const Architecture& architecture,
                                                     CubinOptions options, std::function<void()> poll) {
  return std::make_unique<CudaDeviceCompiler>(std::move(compiler), architecture, std::move(options),
                                              std::move(poll));
}

}  // namespace fusetune::backend::cuda
