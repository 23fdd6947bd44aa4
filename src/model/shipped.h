// The models in models/ and their sidecars, embedded at build time.
#pragma once

#include <string_view>

namespace fusetune::model {

struct ShippedModel {
  std::string_view model, sidecar;
};

ShippedModel shipped_plans();     // models/plans.json
ShippedModel shipped_segments();  // models/segments.json

}  // namespace fusetune::model
