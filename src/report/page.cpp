#include "report/page.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "report/embedded.h"
#include "report/html.h"

namespace fusetune::report {
namespace {

std::string_view embedded(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == name) return file.text;
  throw base::InternalError("no file of this name is embedded: " + std::string(name));
}

std::string script(const std::string& nonce, std::string_view text) {
  return fmt::format("<script nonce=\"{}\">\n{}</script>\n", nonce, text);
}

}  // namespace

Page::Page(std::string title) : title_(std::move(title)) {}

void Page::heading(std::string_view text) { body_ += fmt::format("<h2>{}</h2>\n", escape_html(text)); }

void Page::paragraph(std::string_view text) { body_ += fmt::format("<p>{}</p>\n", escape_html(text)); }

void Page::verbatim(std::string_view text) { body_ += fmt::format("<pre>{}</pre>\n", escape_html(text)); }

void Page::table(const Table& table) {
  body_ += fmt::format("<div class=\"wide\">\n{}</div>\n", table.to_html());
}

void Page::folded_table(std::string_view summary, const Table& table) {
  body_ += fmt::format("<details><summary>{}</summary>\n<div class=\"wide\">\n{}</div></details>\n",
                       escape_html(summary), table.to_html());
}

void Page::chart(std::string_view name, std::string_view caption) {
  body_ += fmt::format(
      "<figure><div class=\"chart\"><canvas id=\"{}\" role=\"img\" aria-label=\"{}\"></canvas></div>\n"
      "<figcaption>{}</figcaption></figure>\n",
      escape_html(name), escape_html(caption), escape_html(caption));
}

std::string Page::to_html(const nlohmann::ordered_json& data) const {
  const std::string json =
      escape_script(data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  // Of all that the page says: nobody who wrote a part of it can know the nonce beforehand.
  const std::string nonce = base::Hasher().add(title_).add(body_).add(json).hex();
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'nonce-{}'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<h1>{}</h1>\n{}"
      "<script type=\"application/json\" id=\"data\">\n{}\n</script>\n{}{}</body>\n</html>\n",
      nonce, escape_html(title_), embedded("page.css"), escape_html(title_), body_, json,
      script(nonce, fmt::format("/*\n{}*/\n{}\n", embedded("chartjs_license.txt"), embedded("chart.min.js"))),
      script(nonce, embedded("charts.js")));
}

}  // namespace fusetune::report
