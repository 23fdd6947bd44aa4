#include "block/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "block/parallel.h"
#include "block/rounding.h"

namespace fusetune::block {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Panels of the right-hand matrix are converted to float64 once and used by all rows of a thread: 128 KiB,
// half of a usual second-level cache.
constexpr std::int64_t kPanelInner = 64;
constexpr std::int64_t kPanelColumns = 256;

// Compiled twice where the loader can choose: for AVX2, and for any CPU. Without contraction to FMA (see
// CMakeLists.txt) both give the same bits. Sanitizers' run-times are not ready yet when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FUSETUNE_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define FUSETUNE_WIDE_VECTORS
#endif

/// c0 += a[0..4) @ panel and c1 += a[4..8) @ panel, where the panel has four rows kPanelColumns apart. Two
/// rows by four load each element of the panel once per two products; the loop is what the compiler
/// vectorises.
FUSETUNE_WIDE_VECTORS void accumulate_2x4(const double* __restrict a, const double* __restrict panel,
                                          double* __restrict c0, double* __restrict c1,
                                          std::int64_t columns) {
  const double a00 = a[0], a01 = a[1], a02 = a[2], a03 = a[3];
  const double a10 = a[4], a11 = a[5], a12 = a[6], a13 = a[7];
  const double* __restrict b0 = panel;
  const double* __restrict b1 = b0 + kPanelColumns;
  const double* __restrict b2 = b1 + kPanelColumns;
  const double* __restrict b3 = b2 + kPanelColumns;
  for (std::int64_t j = 0; j < columns; ++j) {
    c0[j] += (a00 * b0[j] + a01 * b1[j]) + (a02 * b2[j] + a03 * b3[j]);
    c1[j] += (a10 * b0[j] + a11 * b1[j]) + (a12 * b2[j] + a13 * b3[j]);
  }
}

/// c[rows,columns) += a[rows,inner) @ panel. A last row without a partner and inner indices past a multiple
/// of four are completed with zeros (the panel holds zeros there), so that a row is summed in the same order
/// wherever a thread's range begins.
void accumulate_panel(const double* a, std::int64_t a_stride, const double* panel, double* c,
                      std::int64_t c_stride, std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  std::array<double, kPanelColumns> no_row{};
  for (std::int64_t i = 0; i < rows; i += 2) {
    const std::int64_t present = std::min<std::int64_t>(2, rows - i);
    double* const c0 = c + i * c_stride;
    double* const c1 = present == 2 ? c0 + c_stride : no_row.data();
    for (std::int64_t k = 0; k < inner; k += 4) {
      std::array<double, 8> block{};
      for (std::int64_t r = 0; r < present; ++r) {
        std::copy_n(a + (i + r) * a_stride + k, std::min<std::int64_t>(4, inner - k), block.begin() + r * 4);
      }
      accumulate_2x4(block.data(), panel + k * kPanelColumns, c0, c1, columns);
    }
  }
}

/// c[rows,columns] = a[rows,inner] @ b[inner,columns], all dense and row-major.
template <typename Value>
void multiply(const double* a, const Value* b, double* c, std::int64_t rows, std::int64_t inner,
              std::int64_t columns) {
  std::vector<double> panel(kPanelInner * kPanelColumns);
  std::fill_n(c, rows * columns, 0.0);
  for (std::int64_t j0 = 0; j0 < columns; j0 += kPanelColumns) {
    const std::int64_t panel_columns = std::min(kPanelColumns, columns - j0);
    for (std::int64_t k0 = 0; k0 < inner; k0 += kPanelInner) {
      const std::int64_t panel_inner = std::min(kPanelInner, inner - k0);
      if (panel_inner < kPanelInner) std::fill(panel.begin(), panel.end(), 0.0);
      for (std::int64_t k = 0; k < panel_inner; ++k) {
        std::copy_n(b + (k0 + k) * columns + j0, panel_columns, panel.begin() + k * kPanelColumns);
      }
      accumulate_panel(a + k0, inner, panel.data(), c + j0, columns, rows, panel_inner, panel_columns);
    }
  }
}

/// x * Phi(x); erfc keeps its digits where 1 + erf would cancel.
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

double gelu_tanh(double x) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  return 0.5 * x * (1.0 + std::tanh(kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
}

/// Subtracts the row's first element, then mean and biased variance in two passes: a large common offset
/// costs no digits, and a constant row gives exactly beta.
void layer_norm_row(const double* x, const std::vector<float>& gamma, const std::vector<float>& beta,
                    double eps, double* y) {
  const auto size = std::ssize(gamma);
  const double first = x[0];
  double mean = 0;
  for (std::int64_t d = 0; d < size; ++d) mean += x[d] - first;
  mean /= static_cast<double>(size);
  double variance = 0;
  for (std::int64_t d = 0; d < size; ++d) {
    const double centred = (x[d] - first) - mean;
    variance += centred * centred;
  }
  const double scale = 1.0 / std::sqrt(variance / static_cast<double>(size) + eps);
  for (std::int64_t d = 0; d < size; ++d) y[d] = ((x[d] - first) - mean) * scale * gamma[d] + beta[d];
}

/// Softmax over the keys that are not -infinity; a row without any gives zeros.
void softmax_row(const double* x, double* y, std::int64_t size) {
  const double largest = *std::max_element(x, x + size);
  if (largest == -kInfinity) {
    std::fill_n(y, size, 0.0);
    return;
  }
  double sum = 0;
  for (std::int64_t j = 0; j < size; ++j) {
    y[j] = x[j] == -kInfinity ? 0.0 : std::exp(x[j] - largest);
    sum += y[j];
  }
  for (std::int64_t j = 0; j < size; ++j) y[j] /= sum;
}

/// One run of the block: each operator is a member function that reads and writes `tensors`.
class Computation {
 public:
  Computation(const Problem& problem, const Mask& mask, const BlockData& data, int threads,
              ReferenceRounding rounding)
      : problem_(problem), mask_(mask), data_(data), threads_(threads), rounding_(rounding) {}

  Reference run() {
    at(Tensor::hidden).assign(data_.hidden.begin(), data_.hidden.end());
    gemm(Tensor::hidden, Weight::w_qkv, Tensor::qkv);
    split_heads();
    attention();
    merge_heads();
    gemm(Tensor::merged, Weight::w_out, Tensor::attn_proj);
    add_bias_and_residual(Tensor::attn_proj, Parameter::b_out, Tensor::hidden, Tensor::attn_sum);
    layer_norm(Tensor::attn_sum, Parameter::gamma1, Parameter::beta1, Tensor::norm1);
    gemm(Tensor::norm1, Weight::w_ffn1, Tensor::ffn_up);
    bias_and_gelu();
    gemm(Tensor::ffn_act, Weight::w_ffn2, Tensor::ffn_down);
    add_bias_and_residual(Tensor::ffn_down, Parameter::b_ffn2, Tensor::norm1, Tensor::ffn_sum);
    layer_norm(Tensor::ffn_sum, Parameter::gamma2, Parameter::beta2, Tensor::output);
    clear_padded_rows();
    return std::move(reference_);
  }

 private:
  std::vector<double>& at(Tensor tensor) { return reference_.tensors[static_cast<int>(tensor)]; }
  double* allocate(Tensor tensor) {
    at(tensor).resize(problem_.elements(tensor));
    return at(tensor).data();
  }
  template <typename Work>
  void for_tokens(Work work) const {
    parallel_for(problem_.tokens(), 8, threads_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) work(token);
    });
  }

  void store_rounded(std::span<double> values, Dtype dtype) const {
    if (rounding_ == ReferenceRounding::none) return;
    for (double& value : values) value = round_to(static_cast<float>(value), dtype);
  }
  void store_rounded(Tensor tensor) { store_rounded(at(tensor), problem_.dtype); }

  void gemm(Tensor input, Weight weight, Tensor output) {
    const auto [inner, columns] = problem_.shape(weight);
    const double* a = at(input).data();
    double* c = allocate(output);
    parallel_for(problem_.tokens(), 4, threads_,
                 [&, inner = inner, columns = columns](std::int64_t begin, std::int64_t end) {
                   multiply(a + begin * inner, data_[weight].data(), c + begin * columns, end - begin, inner,
                            columns);
                 });
    store_rounded(output);
  }

  /// Calls work(token, head, row of W values in a [B,H,S,W] tensor, first column in a [B,S,D] row).
  template <typename Work>
  void for_head_rows(Work work) const {
    for_tokens([&](std::int64_t token) {
      const std::int64_t b = token / problem_.seq, s = token % problem_.seq;
      for (std::int64_t h = 0; h < problem_.heads; ++h) {
        work(token, ((b * problem_.heads + h) * problem_.seq + s) * problem_.head_size,
             h * problem_.head_size);
      }
    });
  }

  void split_heads() {
    const std::vector<double>& qkv = at(Tensor::qkv);
    const std::vector<float>& bias = data_[Parameter::b_qkv];
    const std::int64_t hidden = problem_.hidden();
    for (const int part : {0, 1, 2}) {
      const auto tensor = static_cast<Tensor>(static_cast<int>(Tensor::q) + part);
      double* rows = allocate(tensor);
      for_head_rows([&](std::int64_t token, std::int64_t row, std::int64_t first) {
        const std::int64_t column = part * hidden + first;
        for (std::int64_t w = 0; w < problem_.head_size; ++w) {
          rows[row + w] = qkv[token * 3 * hidden + column + w] + bias[column + w];
        }
      });
      store_rounded(tensor);
    }
  }

  void merge_heads() {
    const std::vector<double>& context = at(Tensor::context);
    double* merged = allocate(Tensor::merged);
    for_head_rows([&](std::int64_t token, std::int64_t row, std::int64_t first) {
      std::copy_n(context.begin() + row, problem_.head_size, merged + token * problem_.hidden() + first);
    });
  }

  /// Operators 2..5, by blocks of query rows of one batch entry and head.
  void attention() {
    for (const Tensor tensor : {Tensor::scores, Tensor::masked_scores, Tensor::probs, Tensor::context})
      allocate(tensor);
    constexpr std::int64_t kBlock = 64;
    const std::int64_t blocks = (problem_.seq + kBlock - 1) / kBlock;
    parallel_for(problem_.batch * problem_.heads * blocks, 1, threads_,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t item = begin; item < end; ++item) {
                     const std::int64_t first = item % blocks * kBlock;
                     attend(item / blocks, first, std::min(kBlock, problem_.seq - first));
                   }
                 });
  }

  /// Query rows [first, first + rows) of batch entry and head `bh` = b*H + h.
  void attend(std::int64_t bh, std::int64_t first, std::int64_t rows) {
    const std::int64_t seq = problem_.seq, size = problem_.head_size, b = bh / problem_.heads;
    const std::span<const std::uint8_t> used = mask_.key_used(mask_.entries() == 1 ? 0 : b);
    const double* k = at(Tensor::k).data() + bh * seq * size;
    const double* v = at(Tensor::v).data() + bh * seq * size;
    std::vector<double> k_transposed(size * seq, 0.0), v_used(seq * size, 0.0);
    for (std::int64_t j = 0; j < seq; ++j) {
      if (!used[j]) continue;
      for (std::int64_t w = 0; w < size; ++w) k_transposed[w * seq + j] = k[j * size + w];
      std::copy_n(v + j * size, size, v_used.begin() + j * size);
    }
    const std::int64_t row = bh * seq + first;
    const std::span<double> scores(at(Tensor::scores).data() + row * seq, rows * seq);
    const std::span<double> masked(at(Tensor::masked_scores).data() + row * seq, rows * seq);
    const std::span<double> probs(at(Tensor::probs).data() + row * seq, rows * seq);
    const std::span<double> context(at(Tensor::context).data() + row * size, rows * size);

    multiply(at(Tensor::q).data() + row * size, k_transposed.data(), scores.data(), rows, size, seq);
    const double root = std::sqrt(static_cast<double>(size));
    for (double& score : scores) score /= root;
    store_rounded(scores, Dtype::f32);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < seq; ++j) {
        masked[i * seq + j] = mask_.visible(b, first + i, j) ? scores[i * seq + j] : -kInfinity;
      }
      softmax_row(masked.data() + i * seq, probs.data() + i * seq, seq);
    }
    store_rounded(probs, Dtype::f32);
    std::vector<double> operand(probs.begin(), probs.end());
    store_rounded(operand, problem_.dtype);
    multiply(operand.data(), v_used.data(), context.data(), rows, seq, size);
    store_rounded(context, problem_.dtype);
  }

  void add_bias_and_residual(Tensor input, Parameter bias, Tensor residual, Tensor output) {
    const std::int64_t hidden = problem_.hidden();
    const std::vector<double>&x = at(input), &other = at(residual);
    const std::vector<float>& b = data_[bias];
    double* y = allocate(output);
    for_tokens([&](std::int64_t token) {
      for (std::int64_t d = 0; d < hidden; ++d)
        y[token * hidden + d] = x[token * hidden + d] + b[d] + other[token * hidden + d];
    });
    store_rounded(output);
  }

  void layer_norm(Tensor input, Parameter gamma, Parameter beta, Tensor output) {
    const std::int64_t hidden = problem_.hidden();
    const double* x = at(input).data();
    double* y = allocate(output);
    for_tokens([&](std::int64_t token) {
      layer_norm_row(x + token * hidden, data_[gamma], data_[beta], problem_.eps, y + token * hidden);
    });
    store_rounded(output);
  }

  void bias_and_gelu() {
    const std::int64_t ffn = problem_.ffn;
    const std::vector<double>& x = at(Tensor::ffn_up);
    const std::vector<float>& bias = data_[Parameter::b_ffn1];
    const auto gelu = problem_.gelu == Gelu::erf ? gelu_erf : gelu_tanh;
    double* y = allocate(Tensor::ffn_act);
    for_tokens([&](std::int64_t token) {
      for (std::int64_t f = 0; f < ffn; ++f) y[token * ffn + f] = gelu(x[token * ffn + f] + bias[f]);
    });
    store_rounded(Tensor::ffn_act);
  }

  void clear_padded_rows() {
    double* output = at(Tensor::output).data();
    for (std::int64_t b = 0; b < problem_.batch; ++b) {
      const std::int64_t padded = problem_.seq - mask_.length(b);
      std::fill_n(output + (b * problem_.seq + mask_.length(b)) * problem_.hidden(),
                  padded * problem_.hidden(), 0.0);
    }
  }

  const Problem& problem_;
  const Mask& mask_;
  const BlockData& data_;
  int threads_;
  ReferenceRounding rounding_;
  Reference reference_;
};

void check_sizes(const Problem& problem, const Mask& mask, const BlockData& data) {
  bool fits = mask.batch() == problem.batch && mask.seq() == problem.seq &&
              std::ssize(data.hidden) == problem.elements(Tensor::hidden);
  for (int w = 0; w < kWeightCount; ++w) {
    const auto [rows, columns] = problem.shape(static_cast<Weight>(w));
    fits = fits && std::ssize(data.weights[w]) == rows * columns;
  }
  for (int p = 0; p < kParameterCount; ++p) {
    fits = fits && std::ssize(data.parameters[p]) == problem.elements(static_cast<Parameter>(p));
  }
  if (!fits)
    throw base::InternalError(
        fmt::format("reference: mask or data do not have the sizes of {}", problem.key()));
}

}  // namespace

Reference compute_reference(const Problem& problem, const Mask& mask, const BlockData& data, int threads,
                            ReferenceRounding rounding) {
  check_sizes(problem, mask, data);
  return Computation(problem, mask, data, threads, rounding).run();
}

}  // namespace fusetune::block
