// Every segment variant with every schedule worth timing, in an order that gives an answer early.
//
// Five phases, each shuffled, each waiting for the results of the one before:
//   1. the fifteen operators alone at their default schedule: from here on there is a complete plan;
//   2. the other schedules of the four lone GEMMs: their tile and K chunk are tuned once per matrix shape;
//   3. the default schedules of the other reference plans' segments, and
//   4. of all other variants,
//   5. their other schedules: from 3 on with the tile tuned in 2 for the segment's costliest GEMM. Tuning it
//      again in every segment would multiply the search by the number of tiles.
#pragma once

#include <optional>
#include <set>

#include "search/random_source.h"
#include "search/strategy.h"

namespace fusetune::search {

class Exhaustive : public Strategy {
 public:
  Exhaustive(const Space& space, std::uint64_t seed);
  std::vector<Candidate> ask(int limit) override;
  void tell(const Candidate& candidate, const Trial& trial) override;
  int expected() const override;
  std::int64_t left() const override;
  /// Ends the search after phase 3, once that was asked for and told: what ask() would give from then on, by
  /// variant; nullopt before that.
  std::optional<std::vector<Candidate>> rest_after_references();

 private:
  void start_phase();
  bool is_over() const { return queue_.empty() && waiting_ == 0; }
  std::vector<Candidate> phase_candidates(int phase) const;
  std::vector<Candidate> candidates_of(int variant, const GemmTile& tile, bool only_default) const;

  Space space_;
  RandomSource random_;
  int phase_ = 0;
  std::size_t estimate_ = 0;      // of candidates in all, before tiles are tuned
  std::vector<Candidate> queue_;  // of this phase, next one last
  std::set<Candidate> asked_;     // ever
  int waiting_ = 0;               // asked but not told
  Incumbents best_;
};

}  // namespace fusetune::search
