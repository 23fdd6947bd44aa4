#include "handmade_kernels.h"

#include "base/hash.h"

namespace fusetune::measure {
namespace {

using block::Tensor;

std::string constants(const block::Problem& problem) {
  return "  const long B = " + std::to_string(problem.batch) + ", S = " + std::to_string(problem.seq) +
         ", H = " + std::to_string(problem.heads) + ", W = " + std::to_string(problem.head_size) +
         ", F = " + std::to_string(problem.ffn) + ", D = H * W;\n";
}

std::string tensor(Tensor which) {
  return "(float*)args->tensor[" + std::to_string(static_cast<int>(which)) + "]";
}

codegen::KernelSource source(int first, int last, const std::string& symbol, const std::string& body) {
  codegen::KernelSource kernel;
  kernel.variant.segment = {first, last};
  kernel.symbol = symbol;
  kernel.includes = {"cpu/abi.h"};
  kernel.body = "extern \"C\" void " + symbol +
                "(const ft_args* args, int thread, int threads, ft_barrier* barrier) {\n" + body + "}\n";
  kernel.hash = base::hash_hex(kernel.body);
  return kernel;
}

constexpr const char* kMergeLoop = R"(
  for (long b = 0; b < B; ++b)
    for (long s = thread; s < S; s += threads)
      for (long h = 0; h < H; ++h)
        for (long w = 0; w < W; ++w)
          merged[(b * S + s) * D + h * W + w] = context[((b * H + h) * S + s) * W + w];
)";

// float32 tensors where they reach memory, double sums: about as exact as a kernel can be. Weights come in
// panels of 16 columns. Buffers are static: the sizes are constants and the block is small.
constexpr const char* kBlockLoops = R"(
  auto gemm = [](const float* a, const void* packed, float* c, long m, long k, long n) {
    for (long i = 0; i < m; ++i)
      for (long j = 0; j < n; ++j) {
        double sum = 0;
        for (long q = 0; q < k; ++q)
          sum += a[i * k + q] * ((const float*)packed)[(j / 16 * k + q) * 16 + j % 16];
        c[i * n + j] = (float)sum;
      }
  };
  auto norm = [](const float* x, const float* gamma, const float* beta, float* y, long m, long n) {
    for (long i = 0; i < m; ++i) {
      double mean = 0, variance = 0;
      for (long j = 0; j < n; ++j) mean += x[i * n + j];
      mean /= n;
      for (long j = 0; j < n; ++j) variance += (x[i * n + j] - mean) * (x[i * n + j] - mean);
      const double scale = 1 / __builtin_sqrt(variance / n + 1e-5);
      for (long j = 0; j < n; ++j) y[i * n + j] = (float)((x[i * n + j] - mean) * scale * gamma[j] + beta[j]);
    }
  };
  const float* const* p = args->parameter;
  static float qkv[B * S * 3 * D], merged[B * S * D], sum[B * S * D], norm1[B * S * D], up[B * S * F];
  gemm(hidden, args->weight[0], qkv, B * S, D, 3 * D);
  for (long i = 0; i < B * S * 3 * D; ++i) qkv[i] += p[0][i % (3 * D)];
  for (long b = 0; b < B; ++b)
    for (long h = 0; h < H; ++h)
      for (long i = 0; i < S; ++i) {
        double score[S], largest = -1e300, total = 0;
        for (long j = 0; j < S; ++j) {
          score[j] = 0;
          const float* query = qkv + (b * S + i) * 3 * D + h * W;
          const float* key = qkv + (b * S + j) * 3 * D + D + h * W;
          for (long w = 0; w < W; ++w) score[j] += (double)query[w] * key[w];
          score[j] /= __builtin_sqrt((double)W);
          if (score[j] > largest) largest = score[j];
        }
        for (long j = 0; j < S; ++j) total += score[j] = __builtin_exp(score[j] - largest);
        for (long w = 0; w < W; ++w) {
          double value = 0;
          for (long j = 0; j < S; ++j)
            value += score[j] / total * qkv[(b * S + j) * 3 * D + 2 * D + h * W + w];
          merged[(b * S + i) * D + h * W + w] = (float)value;
        }
      }
  gemm(merged, args->weight[1], sum, B * S, D, D);
  for (long i = 0; i < B * S * D; ++i) sum[i] += p[1][i % D] + hidden[i];
  norm(sum, p[2], p[3], norm1, B * S, D);
  gemm(norm1, args->weight[2], up, B * S, D, F);
  for (long i = 0; i < B * S * F; ++i) {
    const double x = up[i] + (double)p[4][i % F];
    up[i] = (float)(x * 0.5 * (1 + __builtin_erf(x * 0.70710678118654752440)));
  }
  gemm(up, args->weight[3], sum, B * S, F, D);
  for (long i = 0; i < B * S * D; ++i) sum[i] += p[5][i % D] + norm1[i];
  norm(sum, p[6], p[7], output, B * S, D);
)";

}  // namespace

codegen::KernelSource merge_heads_kernel(const block::Problem& problem, const std::string& symbol,
                                         const std::string& before, const std::string& after) {
  std::string body = constants(problem);
  body += "  const long elements = B * S * D;\n";
  body += "  float* context = " + tensor(Tensor::context) + ";\n";
  body += "  float* merged = " + tensor(Tensor::merged) + ";\n";
  body += "  (void)elements; (void)barrier;\n";
  body += "  if (thread == 0) { " + before + " }\n  ft_barrier_wait(barrier, threads);\n";
  body += kMergeLoop;
  body += "  ft_barrier_wait(barrier, threads);\n  if (thread == 0) { " + after + " }\n";
  codegen::KernelSource kernel = source(6, 6, symbol, body);
  kernel.reads = {Tensor::context};
  kernel.writes = {Tensor::merged};
  return kernel;
}

codegen::KernelSource block_kernel(const block::Problem& problem, const std::string& symbol, int repeats,
                                   const std::string& after) {
  std::string body = constants(problem);
  body += "  const float* hidden = " + tensor(Tensor::hidden) + ";\n";
  body += "  float* output = " + tensor(Tensor::output) + ";\n";
  body += "  (void)threads; (void)barrier;\n  if (thread != 0) return;\n";
  body += "  for (int repeat = 0; repeat < " + std::to_string(repeats) + "; ++repeat) {\n";
  body += kBlockLoops;
  body += "  __asm__ volatile(\"\" : : : \"memory\");\n  }\n  " + after + "\n";
  codegen::KernelSource kernel = source(0, 14, symbol, body);
  kernel.reads = {Tensor::hidden};
  kernel.writes = {Tensor::output};
  for (auto& layout : kernel.layouts) layout = codegen::PanelLayout{.panel = 16, .group = 0};
  return kernel;
}

}  // namespace fusetune::measure
