#include "backend/cuda/cuda_backend.h"

#include <optional>
#include <string>

#include "backend/cuda/cubin_cache.h"
#include "backend/cuda/cubin_compiler.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/driver.h"
#include "base/error.h"
#include "base/file.h"
#include "base/number.h"

namespace fusetune::backend::cuda {
namespace {

std::string in_kib(int bytes) { return std::to_string(bytes >> 10) + " KiB"; }

std::string capability(int number) { return std::to_string(number / 10) + "." + std::to_string(number % 10); }

std::string names(const std::vector<Architecture>& architectures) {
  std::string text;
  for (const Architecture& one : architectures) text += (text.empty() ? "" : " ") + one.name();
  return text;
}

/// Without NVRTC.
std::string what_remains() {
  const auto known = CubinCache(base::cache_directory()).compilers();
  if (known.empty()) return ": CUDA kernels cannot be compiled";
  return ": only CUDA kernels that NVRTC " + known.front().version() + " left in the cache " +
         base::cache_directory().string() + " can run";
}

std::optional<Nvrtc> check_nvrtc(std::vector<Check>& checks) {
  const std::string what = "NVRTC";
  try {
    Nvrtc nvrtc;
    const auto supported = supported_architectures(nvrtc.architectures());
    checks.push_back({what, supported.empty() ? Check::Status::warning : Check::Status::ok,
                      nvrtc.version() + " at " + nvrtc.library().string() + ": " + names(supported),
                      supported.empty() ? kNvrtcRemedy : ""});
    if (supported.empty()) return std::nullopt;
    return nvrtc;
  } catch (const base::EnvironmentError& error) {
    checks.push_back(
        {what, Check::Status::warning, why_no_nvrtc(error.what()) + what_remains(), kNvrtcRemedy});
    return std::nullopt;
  }
}

Check check_cublaslt() {
  const std::string what = "cuBLASLt";
  try {
    const CublasLtFile found = locate_cublaslt();
    return {what,
            Check::Status::ok,
            found.version + " at " + found.path.string() + ": a candidate of searches on a GPU",
            {}};
  } catch (const base::EnvironmentError& error) {
    return {what, Check::Status::warning,
            why_no_cublaslt(error.what()) + ": searches on a GPU have generated kernels only",
            std::string(kCublasLtRemedy)};
  }
}

/// Compiles for the oldest architecture, which every NVRTC knows.
Check check_trial(const Nvrtc& nvrtc) {
  const std::string what = "compile a kernel";
  const std::string remedy = "see the message; FUSETUNE_NVRTC names another NVRTC";
  const CubinSource source{
      .name = "trial kernel",
      .symbol = "ft_doctor_trial",
      .text = R"(extern "C" __global__ void ft_doctor_trial(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x] + in[threadIdx.x];
}
)",
      .architecture = supported_architectures(nvrtc.architectures()).front()};
  try {
    const CubinResult result = CubinCompiler(nvrtc, CubinOptions()).compile({&source, 1}).front();
    if (result.status != CubinResult::Status::ok) return {what, Check::Status::warning, result.log, remedy};
    return {what,
            Check::Status::ok,
            source.architecture.name() + ", compiled in " +
                base::format_fixed(result.compile_seconds * 1e3, 0) + " ms",
            {}};
  } catch (const base::EnvironmentError& error) {
    return {what, Check::Status::warning, error.what(), remedy};
  }
}

Check check_driver() {
  const std::string what = "driver";
  const std::string remedy = "nothing is needed to compile; to run kernels, install NVIDIA's driver";
  const std::string effect = ": kernels are generated and compiled, not run";
  try {
    const Driver driver;
    const std::size_t count = driver.devices().size();
    const std::string found = "CUDA " + driver.version() + ", devices: " + std::to_string(count);
    if (count > 0) return {what, Check::Status::ok, found, {}};
    return {what, Check::Status::warning, found + effect, "nothing is needed to compile; check nvidia-smi"};
  } catch (const base::EnvironmentError& error) {
    return {what, Check::Status::warning, error.what() + effect, remedy};
  }
}

class CudaBackend final : public Backend {
 public:
  std::vector<Device> devices() const override {
    std::vector<Device> devices;
    try {
      const Driver driver;
      for (const DriverDevice& device : driver.devices()) {
        devices.push_back({device.name,
                           {{"compute", capability(device.compute_capability)},
                            {"sms", std::to_string(device.multiprocessors)},
                            {"shared", in_kib(device.shared_bytes_per_block)},
                            {"l2", in_kib(device.l2_bytes)},
                            {"driver", driver.version()}}});
      }
    } catch (const base::EnvironmentError&) {  // no driver, or none that works: doctor says why
      devices.clear();
    }
    return devices;
  }

  std::vector<Check> diagnose(const DiagnoseOptions& /*options*/) const override {
    std::vector<Check> checks;
    if (const auto nvrtc = check_nvrtc(checks)) checks.push_back(check_trial(*nvrtc));
    checks.push_back(check_cublaslt());
    checks.push_back(check_driver());
    return checks;
  }
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() { return std::make_unique<CudaBackend>(); }

}  // namespace fusetune::backend::cuda
