// A cost model of kernels as a prior.
#pragma once

#include <string>

#include "model/cost_model.h"
#include "search/segment_prior.h"

namespace fusetune::search {

/// A model of schema segment, asked about one problem on one device.
class ModelPrior : public SegmentPrior {
 public:
  ModelPrior(std::string name, model::CostModel model, const block::Problem& problem, model::Device device);
  std::string_view kind() const override { return "model"; }
  std::string name() const override { return name_; }
  std::vector<double> predict_us(std::span<const Candidate> candidates) const override;

 private:
  std::string name_;
  model::CostModel model_;
  model::ProblemFacts facts_;
  model::Device device_;
};

}  // namespace fusetune::search
