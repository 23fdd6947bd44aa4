// The encoder block drawn as text with the segments of a plan.
#pragma once

#include <string>

#include "plan/fusion_plan.h"

namespace fusetune::report {

/// One line: "qkv_gemm─qkv_bias │ scores─mask─softmax─context─merge_heads* │ …"; the star marks hand-written
/// attention. Broken into lines of at most `width` columns, each indented by `indent` spaces.
std::string draw_line(const plan::FusionPlan& plan, int width = 100, int indent = 2);

/// A box per kernel with its operators (mask position, name, formula) and, between boxes, the tensors that go
/// through memory.
std::string draw_block(const plan::FusionPlan& plan);

}  // namespace fusetune::report
