#include "backend/backend.h"

#include <array>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/simt/simt_backend.h"
#include "base/error.h"
#include "base/text.h"

namespace fusetune::backend {
namespace {

constexpr std::array<BackendInfo, 3> kBackends = {{
    {"cpu", "generated C++ for this host, compiled by the system compiler", &cpu::make_cpu_backend},
    {"cuda", "generated CUDA C++, compiled by NVRTC", &cuda::make_cuda_backend},
    {"simt", "generated CUDA source run thread by thread on the CPU, for correctness",
     &simt::make_simt_backend},
}};

}  // namespace

std::span<const BackendInfo> backends() { return kBackends; }

std::unique_ptr<Backend> make_backend(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BackendInfo& backend : kBackends) {
    names.push_back(backend.name);
    if (backend.name != name) continue;
    return backend.make();
  }
  const std::string nearest = base::nearest(name, names);
  throw base::UsageError("unknown backend '" + std::string(name) + "'" +
                         (nearest.empty() ? std::string() : ": did you mean '" + nearest + "'?") +
                         " (cpu, cuda, simt)");
}

}  // namespace fusetune::backend
