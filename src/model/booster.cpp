#include "model/booster.h"

#include <fmt/core.h>
#include <xgboost/c_api.h>

#include <algorithm>
#include <clocale>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/number.h"

namespace fusetune::model {
namespace {

void check(int code, std::string_view doing) {
  if (code == 0) return;
  // The first line says why; a stack trace follows.
  std::string why = XGBGetLastError();
  why.resize(std::min(why.find('\n'), why.size()));
  throw base::EnvironmentError(fmt::format("XGBoost failed while {}: {}", doing, why));
}

/// Its warnings and progress would mix with the program's own.
void silence() {
  static const bool done = [] {
    check(XGBSetGlobalConfig(R"({"verbosity": 0})"), "being set up");
    check(XGBRegisterLogCallback([](const char*) {}), "being set up");
    return true;
  }();
  static_cast<void>(done);
}

/// XGBoost reads some numbers with strtof(), which follows the locale: 1.5 is 1 under de_DE. This thread's
/// locale is C as long as this lives; the program's stays.
class CLocale {
 public:
  CLocale() : locale_(::newlocale(LC_ALL_MASK, "C", nullptr)), before_(::uselocale(locale_)) {}
  ~CLocale() {
    ::uselocale(before_);
    ::freelocale(locale_);
  }
  CLocale(const CLocale&) = delete;
  CLocale& operator=(const CLocale&) = delete;

 private:
  locale_t locale_, before_;
};

void require_shape(const Matrix& matrix) {
  if (matrix.rows == 0 || matrix.values.size() != matrix.rows * matrix.columns)
    throw base::InternalError(
        fmt::format("{} values are no {} x {} matrix", matrix.values.size(), matrix.rows, matrix.columns));
}

class DMatrix {
 public:
  explicit DMatrix(const Matrix& matrix) {
    require_shape(matrix);
    check(XGDMatrixCreateFromMat(matrix.values.data(), matrix.rows, matrix.columns,
                                 std::numeric_limits<float>::quiet_NaN(), &handle_),
          "reading the features");
  }
  ~DMatrix() { XGDMatrixFree(handle_); }
  DMatrix(const DMatrix&) = delete;
  DMatrix& operator=(const DMatrix&) = delete;

  void set_labels(std::span<const float> labels) {
    check(XGDMatrixSetFloatInfo(handle_, "label", labels.data(), labels.size()), "reading the labels");
  }
  DMatrixHandle get() const { return handle_; }

 private:
  DMatrixHandle handle_ = nullptr;
};

/// Predictions live in a buffer of the booster that its next prediction overwrites.
std::vector<float> copied(const bst_ulong* shape, bst_ulong dimensions, const float* values) {
  std::size_t count = 1;
  for (bst_ulong i = 0; i < dimensions; ++i) count *= static_cast<std::size_t>(shape[i]);
  return {values, values + count};
}

std::string predict_config(int type) {
  return fmt::format(
      R"({{"type": {}, "training": false, "cache_id": 0, "iteration_begin": 0, "iteration_end": 0, )"
      R"("strict_shape": false, "missing": NaN}})",
      type);
}

}  // namespace

struct Booster::Impl {
  BoosterHandle handle = nullptr;
  std::size_t columns = 0;

  Impl() = default;
  ~Impl() { XGBoosterFree(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void create(std::span<const DMatrixHandle> matrices) {
    silence();
    check(XGBoosterCreate(matrices.data(), matrices.size(), &handle), "making a booster");
  }
  void set(const char* name, const std::string& value) {
    check(XGBoosterSetParam(handle, name, value.c_str()), fmt::format("setting {} to {}", name, value));
  }
  void set_all(const BoosterOptions& options) {
    set("objective", options.objective == Objective::regression ? "reg:squarederror" : "binary:logistic");
    // Labels come centred. Naming the score keeps it from being written in the locale's manner.
    set("base_score", options.objective == Objective::regression ? "0" : "0.5");
    set("booster", "gbtree");
    set("tree_method", "hist");
    set("eta", "0.1");
    set("max_depth", "6");
    set("min_child_weight", "1");
    set("subsample", "0.8");
    set("colsample_bytree", "0.8");
    set("scale_pos_weight", base::format_shortest(options.positive_weight));
    set("seed",
        std::to_string(options.seed & std::numeric_limits<std::int64_t>::max()));  // XGBoost's is signed
    set("nthread", std::to_string(options.threads));
  }
  void require_columns(const Matrix& matrix) const {
    require_shape(matrix);
    if (matrix.columns != columns)
      throw base::InternalError(
          fmt::format("the model has {} features, the rows have {}", columns, matrix.columns));
  }
};

Booster::Booster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Booster::~Booster() = default;
Booster::Booster(Booster&&) noexcept = default;
Booster& Booster::operator=(Booster&&) noexcept = default;

Booster Booster::train(const Matrix& matrix, std::span<const float> labels, const BoosterOptions& options) {
  const CLocale numbers;
  silence();
  if (labels.size() != matrix.rows)
    throw base::InternalError(fmt::format("{} labels for {} rows", labels.size(), matrix.rows));
  DMatrix data(matrix);
  data.set_labels(labels);
  auto impl = std::make_unique<Impl>();
  const DMatrixHandle handles[] = {data.get()};
  impl->create(handles);
  impl->columns = matrix.columns;
  impl->set_all(options);
  for (int round = 0; round < options.rounds; ++round)
    check(XGBoosterUpdateOneIter(impl->handle, round, data.get()), "fitting");
  return Booster(std::move(impl));
}

Booster Booster::from_json(const std::string& text, int threads) {
  const CLocale numbers;
  auto impl = std::make_unique<Impl>();
  impl->create({});
  check(XGBoosterLoadModelFromBuffer(impl->handle, text.data(), text.size()), "loading a model");
  impl->set("nthread", std::to_string(threads));
  bst_ulong columns = 0;
  check(XGBoosterGetNumFeature(impl->handle, &columns), "counting the model's features");
  impl->columns = static_cast<std::size_t>(columns);
  return Booster(std::move(impl));
}

std::string Booster::to_json() const {
  const CLocale numbers;
  bst_ulong length = 0;
  const char* text = nullptr;
  check(XGBoosterSaveModelToBuffer(impl_->handle, R"({"format": "json"})", &length, &text),
        "writing a model");
  return {text, static_cast<std::size_t>(length)};
}

std::size_t Booster::columns() const { return impl_->columns; }

std::vector<float> Booster::predict(const Matrix& matrix) const {
  if (matrix.rows == 0) return {};
  impl_->require_columns(matrix);
  const std::string values =
      fmt::format(R"({{"data": [{}, true], "shape": [{}, {}], "typestr": "<f4", "version": 3}})",
                  reinterpret_cast<std::uintptr_t>(matrix.values.data()), matrix.rows, matrix.columns);
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* result = nullptr;
  check(XGBoosterPredictFromDense(impl_->handle, values.c_str(), predict_config(0).c_str(), nullptr, &shape,
                                  &dimensions, &result),
        "predicting");
  return copied(shape, dimensions, result);
}

std::vector<float> Booster::contributions(const Matrix& matrix) const {
  if (matrix.rows == 0) return {};
  impl_->require_columns(matrix);
  const DMatrix data(matrix);
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* result = nullptr;
  check(XGBoosterPredictFromDMatrix(impl_->handle, data.get(), predict_config(2).c_str(), &shape, &dimensions,
                                    &result),
        "explaining");
  return copied(shape, dimensions, result);
}

std::string xgboost_version() {
  int major = 0, minor = 0, patch = 0;
  XGBoostVersion(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

}  // namespace fusetune::model
