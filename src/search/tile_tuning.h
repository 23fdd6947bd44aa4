// A GEMM's register tile and K chunk are tuned once per matrix shape, on the operator alone: tuning them
// again in every segment would multiply a search by the number of tiles.
#pragma once

#include <span>

#include "search/strategy.h"

namespace fusetune::search {

/// qkv_gemm, out_gemm, ffn1_gemm, ffn2_gemm.
std::span<const int> gemm_operators();
/// The variant of one operator alone.
int lone_variant(int op);
bool is_lone_gemm(int variant);

/// The tile that won for the costliest GEMM of the variant's segment; all zero: none was timed alone.
GemmTile tuned_tile(const Incumbents& best, int variant);

/// The four GEMMs alone, with every schedule of theirs: what a search of whole plans begins with.
class TileTuning : public Strategy {
 public:
  TileTuning(const Space& space, std::uint64_t seed);
  std::vector<Candidate> ask(int limit) override;
  void tell(const Candidate& /*candidate*/, const Trial& /*trial*/) override { ++told_; }
  int expected() const override { return expected_; }
  std::int64_t left() const override { return expected_ - told_; }

 private:
  std::vector<Candidate> queue_;  // next one last
  int expected_;
  int told_ = 0;
};

}  // namespace fusetune::search
