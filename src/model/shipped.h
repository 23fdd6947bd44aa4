// models/plans.json and its sidecar, embedded at build time.
#pragma once

#include <string_view>

namespace fusetune::model {

std::string_view shipped_model();
std::string_view shipped_sidecar();

}  // namespace fusetune::model
