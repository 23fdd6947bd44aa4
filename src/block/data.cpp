#include "block/data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "block/parallel.h"
#include "block/random.h"
#include "block/rounding.h"

namespace fusetune::block {
namespace {

enum class Shape { uniform, normal };

/// A distribution: uniform on [a, b), or normal with mean a and standard deviation b.
struct Distribution {
  Shape shape;
  double a, b;
};

/// Values 4 * index .. 4 * index + 3 of a stream.
std::array<double, 4> draw_four(const Distribution& distribution, const std::array<std::uint32_t, 4>& words) {
  std::array<double, 4> values{};
  if (distribution.shape == Shape::uniform) {
    for (int n = 0; n < 4; ++n) values[n] = to_unit(words[n]);
    for (double& value : values) value = distribution.a + (distribution.b - distribution.a) * value;
  } else {
    const auto first = to_normals(words[0], words[1]), second = to_normals(words[2], words[3]);
    values = {first[0], first[1], second[0], second[1]};
    for (double& value : values) value = distribution.a + distribution.b * value;
  }
  return values;
}

std::vector<float> fill(std::int64_t count, const Distribution& distribution, std::uint64_t seed,
                        std::uint32_t stream, Dtype dtype) {
  std::vector<float> values(count);
  parallel_for((count + 3) / 4, 4096, 0, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::array<double, 4> four = draw_four(distribution, philox(seed, stream, index));
      const std::int64_t used = std::min<std::int64_t>(4, count - index * 4);
      for (std::int64_t n = 0; n < used; ++n) values[index * 4 + n] = static_cast<float>(four[n]);
    }
    const std::int64_t last = std::min(end * 4, count);
    round_to(std::span(values.data() + begin * 4, values.data() + last), dtype);
  });
  return values;
}

constexpr Distribution kResearch{Shape::uniform, -0.4, 0.4};

bool is_gamma(Parameter parameter) {
  return parameter == Parameter::gamma1 || parameter == Parameter::gamma2;
}

}  // namespace

BlockData generate_data(const Problem& problem) {
  const bool uniform = problem.data == DataMode::uniform;
  BlockData data;
  data.hidden =
      fill(problem.elements(Tensor::hidden), uniform ? kResearch : Distribution{Shape::normal, 0, 1},
           problem.seed, static_cast<std::uint32_t>(Stream::hidden), problem.dtype);
  for (int w = 0; w < kWeightCount; ++w) {
    const auto [fan_in, columns] = problem.shape(static_cast<Weight>(w));
    const Distribution scaled{Shape::normal, 0, 1.0 / std::sqrt(static_cast<double>(fan_in))};
    data.weights[w] = fill(fan_in * columns, uniform ? kResearch : scaled, problem.seed,
                           static_cast<std::uint32_t>(Stream::weights) + w, problem.dtype);
  }
  for (int p = 0; p < kParameterCount; ++p) {
    const auto parameter = static_cast<Parameter>(p);
    const std::int64_t count = problem.elements(parameter);
    if (!uniform && is_gamma(parameter)) {
      data.parameters[p].assign(count, 1.0f);
      continue;
    }
    data.parameters[p] = fill(count, uniform ? kResearch : Distribution{Shape::normal, 0, 0.02}, problem.seed,
                              static_cast<std::uint32_t>(Stream::parameters) + p, Dtype::f32);
  }
  return data;
}

}  // namespace fusetune::block
