// devices: what kernels can run on.
#include <fmt/core.h>

#include "backend/backend.h"
#include "cli/command.h"
#include "cli/output.h"

namespace fusetune::cli {
namespace {

report::Table rows() {
  report::Table table({{"backend", "backend"}, {"device", "device"}, {"properties", "properties"}});
  for (const backend::BackendInfo& info : backend::backends()) {
    if (!info.make) continue;
    for (const backend::Device& device : info.make()->devices()) {
      std::vector<std::string> properties;
      for (const auto& [key, value] : device.properties)
        properties.push_back(fmt::format("{}={}", key, value));
      table.add({std::string(info.name), device.name, properties});
    }
  }
  return table;
}

std::string lines() {
  std::string text;
  for (const backend::BackendInfo& info : backend::backends()) {
    if (!info.make) {
      text += fmt::format("{:<6} {} (comes with a later version)\n", info.name, info.description);
      continue;
    }
    const std::vector<backend::Device> devices = info.make()->devices();
    if (devices.empty()) text += fmt::format("{:<6} no device\n", info.name);
    for (const backend::Device& device : devices) {
      text += fmt::format("{:<6} {}\n", info.name, device.name);
      for (const auto& [key, value] : device.properties)
        text += fmt::format("       {:<10} {}\n", key, value);
    }
  }
  return text;
}

}  // namespace

int run_devices(Options& options) {
  RowsOutput output;
  output.declare(options);
  options.parse();
  if (!output.write(rows())) print(lines());
  return kDone;
}

}  // namespace fusetune::cli
