// pytorch/ of a bundle: its operators for PyTorch, the module that makes a layer of them, and how they are
// built.
#pragma once

#include <string>
#include <string_view>

#include "export/bundle.h"

namespace fusetune::exporting {

/// What is not the same for every target.
struct TorchTarget {
  std::string_view templates;  // folder with torch_device.h.in and torch_compile.py.in
  std::string_view processor;  // "the CPU"
  std::string_view device;     // as PyTorch calls it: "cpu"
  std::string_view dispatch;   // and its dispatch key: "CPU"
  std::string batches;         // which ones run: "a multiple of 2"
  std::string lengths;         // what the argument of this name does, as sentences
};

/// Adds pytorch/*. Throws base::InternalError for a target whose templates are not there.
void add_torch(const BundleOrigin& origin, const TorchTarget& target, Files& files);

}  // namespace fusetune::exporting
