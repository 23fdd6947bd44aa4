#include "report/strategy_page.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/page.h"

namespace fusetune::report {
namespace {

using Json = nlohmann::ordered_json;

Json percent(double share) { return std::isfinite(share) ? Json(100 * share) : Json(); }

Json curve_json(const RegretCurve& curve) {
  Json json = {
      {"name", curve.name}, {"mean", Json::array()}, {"least", Json::array()}, {"most", Json::array()}};
  for (const RegretCurve::Point& point : curve.points) {
    json["mean"].push_back(percent(point.mean));
    json["least"].push_back(percent(point.least));
    json["most"].push_back(percent(point.most));
  }
  return json;
}

void add_lines(Page& html, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) html.paragraph(line);
}

}  // namespace

std::string to_html(const StrategyPage& page) {
  Page html(page.title);
  add_lines(html, page.recorded);
  html.heading("Best so far");
  html.chart(
      "curves",
      "How much slower than the fastest recorded plan the best plan so far is, in percent, after how many "
      "trials: the mean of all searches, shaded from the best to the worst of them. Below the dashed line "
      "is a tie.");
  html.heading("The same budget for each");
  html.table(page.budgets);
  add_lines(html, page.notes);
  Json data = {{"kind", "strategies"}, {"tie_percent", 100 * page.tie_band}, {"curves", Json::array()}};
  for (const RegretCurve& curve : page.curves) data["curves"].push_back(curve_json(curve));
  return html.to_html(data);
}

}  // namespace fusetune::report
