// Strategies compared on recorded plans, as a page: how good the best plan was after how many trials.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/table.h"

namespace fusetune::report {

/// Best so far of several searches of one strategy.
struct RegretCurve {
  /// How much slower than the fastest recorded plan (0.01: 1 %): the mean, the best and the worst search. NaN
  /// while a search has timed no plan.
  struct Point {
    double mean = 0, least = 0, most = 0;
  };
  std::string name;
  std::vector<Point> points;  // after 1, 2, 3, ... trials
};

struct StrategyPage {
  std::string title;
  std::span<const RegretCurve> curves;
  const Table& budgets;
  std::string notes;     // what the figures mean, one paragraph a line
  double tie_band = 0;   // regrets up to this are a tie
  std::string recorded;  // what was recorded and where, one paragraph a line
};

std::string to_html(const StrategyPage& page);

}  // namespace fusetune::report
