// One XGBoost booster. The only place that knows XGBoost's C API.
//
// Every call is checked. All throw base::EnvironmentError with XGBoost's own message where it refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fusetune::model {

enum class Objective { regression, classification };

struct BoosterOptions {
  Objective objective = Objective::regression;
  int rounds = 200;
  std::uint64_t seed = 0;
  /// Never left to OpenMP, which counts the host's CPUs and not the container's. With one thread the same
  /// seed gives the same model on every machine.
  int threads = 1;
  double positive_weight = 1;  // of the rows of class 1, classification only
};

/// Rows of float32, row-major.
struct Matrix {
  std::span<const float> values;
  std::size_t rows = 0, columns = 0;
};

class Booster {
 public:
  /// Fits `labels` (one a row; 0 or 1 for classification).
  static Booster train(const Matrix& matrix, std::span<const float> labels, const BoosterOptions& options);
  /// From the text of to_json(). It must have been checked (model_file.h): XGBoost ends in bare allocation
  /// errors at bad documents.
  static Booster from_json(const std::string& text, int threads);
  ~Booster();
  Booster(Booster&&) noexcept;
  Booster& operator=(Booster&&) noexcept;

  /// XGBoost's JSON model format.
  std::string to_json() const;
  std::size_t columns() const;

  /// One value a row: the label's estimate, or the probability of class 1. Owned by the caller.
  std::vector<float> predict(const Matrix& matrix) const;
  /// columns + 1 values a row: what each feature adds to the row's estimate (before the logistic function),
  /// and last what all rows share. They sum to the estimate.
  std::vector<float> contributions(const Matrix& matrix) const;

 private:
  struct Impl;
  explicit Booster(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Of the library that runs: "1.7.4".
std::string xgboost_version();

}  // namespace fusetune::model
