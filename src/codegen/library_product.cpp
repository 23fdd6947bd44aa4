#include "codegen/library_product.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "codegen/product.h"

namespace fusetune::codegen {
namespace {

std::string call_text(const LibraryProduct& product, std::string_view version) {
  const std::string multiplied =
      fmt::format("{}[{}, {}] {}[{}, {}]", block::name(product.reads.front()), product.m, product.k,
                  block::name(product.weight), product.k, product.n);
  return fmt::format(
      "// Segment {} of an encoder block, by {}.\n"
      "// {}[{}, {}] = {}, row-major {}, sums in float32.\n"
      "{}"
      "// The first algorithm that its heuristic names, with at most {} bytes of workspace.\n",
      product.variant.to_string(), version, block::name(product.writes.front()), product.m, product.n,
      product.bias ? fmt::format("GELU({} + {}[{}])", multiplied, block::name(*product.bias), product.n)
                   : multiplied,
      block::name(product.dtype),
      product.bias ? "// Bias and GELU, in its tanh form, by the library's epilogue.\n" : "",
      kLibraryWorkspaceBytes);
}

}  // namespace

LibraryProduct generate_library(const plan::SegmentVariant& variant, const lower::GpuSchedule& schedule,
                                const block::Problem& problem, const lower::GpuTarget& target) {
  if (schedule.product != lower::GpuProduct::library)
    throw base::InternalError("the schedule " + schedule.to_string() + " asks for no library");
  if (const std::string reason = lower::refuse(schedule, variant, problem, target); !reason.empty())
    throw base::UsageError(
        fmt::format("segment {} with schedule '{}': {}", variant.to_string(), schedule.to_string(), reason));
  const auto [op, last] = variant.segment;
  const bool has_epilogue = last > op;  // lower::refuse() lets [10-11] through only
  const Product parts = product_of(op);
  LibraryProduct product;
  product.variant = variant;
  product.schedule = schedule;
  product.dtype = problem.dtype;
  product.reads = {parts.input};
  product.writes = {has_epilogue ? parts.output_with_next : parts.output};
  product.weight = parts.weight;
  if (has_epilogue) product.bias = block::Parameter::b_ffn1;
  product.m = problem.tokens();
  product.n = product_columns(op, problem);
  product.k = op == 12 ? problem.ffn : problem.hidden();
  product.call = call_text(product, target.library->version);
  product.hash = base::Hasher().add(product.call).hex().substr(0, 16);
  product.symbol =
      fmt::format("ft_library_{}_{}_{}_{}", op, last, block::name(problem.dtype), product.hash.substr(0, 12));
  return product;
}

}  // namespace fusetune::codegen
