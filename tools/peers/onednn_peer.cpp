// Peer process: the bare matrix products of the block in oneDNN, weights packed as it likes best.
//
//   onednn_peer --sizes BATCH,SEQ,HEADS,HEAD_SIZE,FFN --data DIR --copies N --threads N
//
// Rows: onednn-gemms, the four linear products and the two batched ones of attention; onednn-linear, the four
// alone. No bias, softmax, GELU, residual or norm: it is a lower bound for a block built on oneDNN.

#include <omp.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <stdexcept>

#include "peer.h"

namespace peers {
namespace {

using dnnl::memory;
using Args = std::unordered_map<int, memory>;

struct Sizes {
  std::int64_t batch, seq, heads, head_size, ffn;
  std::int64_t tokens() const { return batch * seq; }
  std::int64_t hidden() const { return heads * head_size; }
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Device {
 public:
  memory::desc describe(const memory::dims& dims, memory::format_tag tag) const {
    return {dims, memory::data_type::f32, tag};
  }
  memory allocate(const memory::desc& description) const { return {description, engine_}; }
  memory random(const memory::desc& description, unsigned seed) const {
    memory result = allocate(description);
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    auto* values = static_cast<float*>(result.get_data_handle());
    for (std::size_t i = 0; i < description.get_size() / sizeof(float); ++i) values[i] = normal(generator);
    return result;
  }
  /// A copy of `source` in the layout `description`, in memory of its own.
  memory packed(memory source, const memory::desc& description) {
    memory result = allocate(description);
    dnnl::reorder(source, result).execute(stream_, source, result);
    stream_.wait();
    return result;
  }
  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

/// One matrix product: the primitive and its arguments, one set per copy of the weight.
struct Product {
  dnnl::primitive primitive;
  std::vector<Args> arguments;
};

const float* values(const memory& buffer) { return static_cast<const float*>(buffer.get_data_handle()); }

void expect_close(const std::string& what, double got, double want, double scale) {
  if (std::abs(got - want) <= 1e-4 * scale) return;
  throw std::runtime_error("oneDNN's " + what + " is wrong: got " + std::to_string(got) + ", want " +
                           std::to_string(want));
}

/// Some elements of [m,n] = [m,k] x [k,n] against float64.
void check_linear(const std::string& what, const float* source, const std::vector<float>& weight,
                  const float* result, std::int64_t m, std::int64_t k, std::int64_t n) {
  for (std::int64_t probe = 0; probe < 64; ++probe) {
    const std::int64_t row = probe * 7919 % m, column = probe * 104729 % n;
    double sum = 0, magnitude = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const double term = double{source[row * k + i]} * weight[static_cast<std::size_t>(i * n + column)];
      sum += term;
      magnitude += std::abs(term);
    }
    expect_close(what, result[row * n + column], sum, magnitude);
  }
}

class Block {
 public:
  Block(const Sizes& sizes, const std::string& data, int copies, bool inner_product)
      : sizes_(sizes), copies_(copies), inner_product_(inner_product) {
    const std::int64_t d = sizes.hidden();
    linear_.push_back(linear(data + "/w_qkv.f32", d, 3 * d));
    linear_.push_back(linear(data + "/w_out.f32", d, d));
    linear_.push_back(linear(data + "/w_ffn1.f32", d, sizes.ffn));
    linear_.push_back(linear(data + "/w_ffn2.f32", sizes.ffn, d));
    scores_ = batched("scores", sizes.seq, sizes.head_size, sizes.seq, true);
    context_ = batched("context", sizes.seq, sizes.seq, sizes.head_size, false);
  }

  /// Runs the block's products once per weight copy; seconds per block.
  double run(bool with_attention) {
    const double start = now();
    for (int copy = 0; copy < copies_; ++copy) {
      execute(linear_[0], copy);
      if (with_attention) {
        execute(scores_, 0);
        execute(context_, 0);
      }
      for (std::size_t i = 1; i < linear_.size(); ++i) execute(linear_[i], copy);
    }
    device_.stream().wait();
    return (now() - start) / copies_;
  }

 private:
  void execute(const Product& product, int copy) {
    product.primitive.execute(device_.stream(), product.arguments[static_cast<std::size_t>(copy)]);
  }

  Product linear(const std::string& file, std::int64_t k, std::int64_t n) {
    const std::vector<float> weight = read_floats(file, k * n);
    return inner_product_ ? as_inner_product(file, weight, k, n) : as_matmul(file, weight, k, n);
  }

  Product as_matmul(const std::string& what, const std::vector<float>& weight, std::int64_t k,
                    std::int64_t n) {
    using tag = memory::format_tag;
    const auto source = device_.describe({sizes_.tokens(), k}, tag::ab);
    const auto any = device_.describe({k, n}, tag::any);
    const auto result = device_.describe({sizes_.tokens(), n}, tag::ab);
    const dnnl::matmul::primitive_desc description({source, any, result}, device_.engine());
    const memory plain = filled(device_.describe({k, n}, tag::ab), weight);
    return finish(what, dnnl::matmul(description), plain, description.weights_desc(), source, result, weight,
                  k, n);
  }

  Product as_inner_product(const std::string& what, const std::vector<float>& weight, std::int64_t k,
                           std::int64_t n) {
    using tag = memory::format_tag;
    const auto source = device_.describe({sizes_.tokens(), k}, tag::ab);
    const auto any = device_.describe({n, k}, tag::any);
    const auto result = device_.describe({sizes_.tokens(), n}, tag::ab);
    const dnnl::inner_product_forward::primitive_desc description(
        {dnnl::prop_kind::forward_inference, source, any, result}, device_.engine());
    const memory plain = filled(device_.describe({n, k}, tag::ba), weight);  // [in,out] seen as [out,in]
    return finish(what, dnnl::inner_product_forward(description), plain, description.weights_desc(), source,
                  result, weight, k, n);
  }

  memory filled(const memory::desc& description, const std::vector<float>& source) {
    memory result = device_.allocate(description);
    std::copy(source.begin(), source.end(), static_cast<float*>(result.get_data_handle()));
    return result;
  }

  Product finish(const std::string& what, dnnl::primitive primitive, const memory& plain,
                 const memory::desc& layout, const memory::desc& source, const memory::desc& result,
                 const std::vector<float>& weight, std::int64_t k, std::int64_t n) {
    Product product{std::move(primitive), {}};
    const memory input = device_.random(source, 1), output = device_.allocate(result);
    for (int copy = 0; copy < copies_; ++copy) {
      product.arguments.push_back(
          {{DNNL_ARG_SRC, input}, {DNNL_ARG_WEIGHTS, device_.packed(plain, layout)}, {DNNL_ARG_DST, output}});
    }
    execute(product, copies_ - 1);
    device_.stream().wait();
    check_linear(what, values(input), weight, values(output), sizes_.tokens(), k, n);
    return product;
  }

  /// [B*H,m,k] x [B*H,k,n]; `transposed`: the second operand is stored [B*H,n,k], as keys are.
  Product batched(const std::string& what, std::int64_t m, std::int64_t k, std::int64_t n, bool transposed) {
    using tag = memory::format_tag;
    const std::int64_t count = sizes_.batch * sizes_.heads;
    const auto left = device_.describe({count, m, k}, tag::abc);
    const auto right = device_.describe({count, k, n}, transposed ? tag::acb : tag::abc);
    const auto result = device_.describe({count, m, n}, tag::abc);
    const dnnl::matmul::primitive_desc description({left, right, result}, device_.engine());
    const memory a = device_.random(left, 2), b = device_.random(right, 3), c = device_.allocate(result);
    Product product{dnnl::matmul(description),
                    {{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}}};
    execute(product, 0);
    device_.stream().wait();
    for (std::int64_t probe = 0; probe < 64; ++probe) {
      const std::int64_t batch = probe % count, row = probe * 7919 % m, column = probe * 104729 % n;
      const float* row_values = values(a) + (batch * m + row) * k;
      const float* other = values(b) + batch * k * n;
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double term =
            double{row_values[i]} * (transposed ? other[column * k + i] : other[i * n + column]);
        sum += term;
        magnitude += std::abs(term);
      }
      expect_close(what, values(c)[(batch * m + row) * n + column], sum, magnitude);
    }
    return product;
  }

  Sizes sizes_;
  int copies_;
  bool inner_product_;
  Device device_;
  std::vector<Product> linear_;
  Product scores_, context_;
};

double best_seconds(Block& block) {
  double best = INFINITY;
  for (int i = 0; i < 6; ++i) best = std::min(best, block.run(true));
  return best;
}

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv, {"--sizes", "--data", "--copies", "--threads"});
  const auto numbers = split(arguments.one("--sizes"), ',');
  if (numbers.size() != 5) throw std::runtime_error("--sizes takes BATCH,SEQ,HEADS,HEAD_SIZE,FFN");
  const Sizes sizes{std::stoll(numbers[0]), std::stoll(numbers[1]), std::stoll(numbers[2]),
                    std::stoll(numbers[3]), std::stoll(numbers[4])};
  const int copies = std::stoi(arguments.one("--copies"));
  omp_set_num_threads(std::stoi(arguments.one("--threads")));

  Block matmul(sizes, arguments.one("--data"), copies, false);
  Block inner_product(sizes, arguments.one("--data"), copies, true);
  const bool inner_wins = best_seconds(inner_product) < best_seconds(matmul);
  Block& block = inner_wins ? inner_product : matmul;
  const std::string settings = std::string(inner_wins ? "inner_product" : "matmul") +
                               " (the faster of matmul and inner_product), weights packed by format any";
  const std::string checked = "64 elements of each product against float64";
  const auto* version = dnnl_version();
  serve({{"onednn-gemms", {settings, [&] { return block.run(true); }, {}, checked}},
         {"onednn-linear",
          {settings + ", without attention's products", [&] { return block.run(false); }, {}, checked}}},
        {{"onednn", std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
                        std::to_string(version->patch)}});
  return 0;
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  try {
    return peers::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "onednn_peer: " << error.what() << "\n";
    return 3;
  }
}
