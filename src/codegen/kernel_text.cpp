#include "codegen/kernel_text.h"

#include <fmt/format.h>

#include "base/number.h"
#include "block/operators.h"

namespace fusetune::codegen {

std::string float_literal(double value) {
  std::string text = base::format_shortest(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string operator_list(int first, int last) {
  std::string text;
  for (int op = first; op <= last; ++op)
    text += fmt::format("{}{} {}", op > first ? ", " : "", op, block::name(static_cast<block::Operator>(op)));
  return text;
}

std::string problem_line(const block::Problem& problem) {
  return fmt::format("// Problem: S={} H={} W={} F={} dtype={} eps={} gelu={}; any batch, any mask.\n",
                     problem.seq, problem.heads, problem.head_size, problem.ffn, name(problem.dtype),
                     base::format_shortest(problem.eps), name(problem.gelu));
}

}  // namespace fusetune::codegen
