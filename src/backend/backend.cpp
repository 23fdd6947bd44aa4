#include "backend/backend.h"

#include <array>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/text.h"

namespace fusetune::backend {
namespace {

constexpr std::array<BackendInfo, 3> kBackends = {{
    {"cpu", "generated C++ for this host, compiled by the system compiler", &cpu::make_cpu_backend},
    {"cuda", "generated CUDA C++, compiled by NVRTC", nullptr},
    {"simt", "generated CUDA source run thread by thread on the CPU, for correctness", nullptr},
}};

}  // namespace

std::span<const BackendInfo> backends() { return kBackends; }

std::unique_ptr<Backend> make_backend(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BackendInfo& backend : kBackends) {
    names.push_back(backend.name);
    if (backend.name != name) continue;
    if (backend.make != nullptr) return backend.make();
    throw base::UsageError("backend '" + std::string(name) +
                           "' comes with a later version; this one has: cpu");
  }
  const std::string nearest = base::nearest(name, names);
  throw base::UsageError("unknown backend '" + std::string(name) + "'" +
                         (nearest.empty() ? std::string() : ": did you mean '" + nearest + "'?") +
                         " (cpu; cuda and simt come with a later version)");
}

}  // namespace fusetune::backend
