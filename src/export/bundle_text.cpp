#include "export/bundle_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "block/data.h"
#include "codegen/embedded.h"
#include "export/config_text.h"

namespace fusetune::exporting {

void add_templates(std::span<const TemplateFile> templates, const Values& values, Files& files) {
  Values unused = values;
  for (const TemplateFile& file : templates)
    files[fill_template(file.place, values)] = fill_template(embedded(file.source), values, &unused);
  if (!unused.empty())
    throw base::InternalError("no template of the bundle uses @" + unused.begin()->first + "@");
}

std::string_view embedded(std::string_view path) {
  for (const codegen::EmbeddedFile& file : codegen::embedded_files())
    if (file.path == path) return file.text;
  throw base::InternalError("no file '" + std::string(path) + "' is embedded");
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  for (std::size_t at = text.find("*/"); at != std::string::npos; at = text.find("*/", at))
    text.replace(at, 2, "* /");
  return text;
}

std::string c_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + '"';
}

std::string cmake_lines(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += "    " + word + "\n";
  if (!text.empty()) text.pop_back();
  return text;
}

Values origin_values(const BundleOrigin& origin) {
  const block::Problem& problem = origin.problem;
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(origin.mask);
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {{"name", origin.name},
          {"NAME", upper(origin.name)},
          {"version", origin.fusetune_version},
          {"problem", one_line(problem.key())},
          {"mask", number(plan.canonical_mask().value)},
          {"plan", plan.to_string()},
          {"batch", number(problem.batch)},
          {"seq", number(problem.seq)},
          {"hidden", number(problem.hidden())},
          {"ffn", number(problem.ffn)},
          {"seed", number(problem.seed)},
          {"data_rows", data_rows(problem)}};
}

std::string expected_output(const block::Problem& problem, block::ReferenceRounding rounding) {
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  const block::Reference reference =
      block::compute_reference(problem, mask, block::generate_data(problem), 0, rounding);
  const std::vector<double>& output = reference[block::Tensor::output];
  const std::vector<float> rounded(output.begin(), output.end());
  return {reinterpret_cast<const char*>(rounded.data()), rounded.size() * sizeof(float)};
}

}  // namespace fusetune::exporting
