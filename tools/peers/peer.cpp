#include "peer.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace peers {
namespace {

long involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

void answer(const nlohmann::json& value) { std::cout << value.dump() << std::endl; }

/// Rows take turns within each repetition, a different one first each time: what slows the machine down, and
/// what a row leaves in the caches, meets all of them alike.
nlohmann::json sample(const std::map<std::string, Row>& rows, const std::string& names, int warm, int count) {
  auto wanted = split(names, ',');
  nlohmann::json times = nlohmann::json::object();
  for (int repetition = 0; repetition < warm + count; ++repetition) {
    for (const std::string& name : wanted) {
      const long before = involuntary_switches();
      const double seconds = rows.at(name).run();
      if (repetition >= warm) times[name].push_back({seconds, involuntary_switches() - before});
    }
    std::ranges::rotate(wanted, wanted.begin() + 1);
  }
  return times;
}

nlohmann::json check(const Row& row, const std::string& file) {
  if (!row.output) return {{"self_checked", row.self_checked}};
  const std::vector<float> values = row.output();
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!stream.flush()) throw std::runtime_error("cannot write " + file);
  return {{"distinct", false}};
}

}  // namespace

void serve(const std::map<std::string, Row>& rows, const std::map<std::string, std::string>& versions) {
  nlohmann::json described = nlohmann::json::object();
  for (const auto& [name, row] : rows) described[name] = {{"settings", row.settings}};
  answer({{"rows", described}, {"versions", versions}});

  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string question, name;
    words >> question >> name;
    nlohmann::json result;
    if (question == "quit") return;
    if (question == "check") {
      std::string file;
      words >> file;
      result = check(rows.at(name), file);
    } else if (question == "sample") {
      int warm = 0, count = 0;
      words >> warm >> count;
      result = sample(rows, name, warm, count);
    } else {
      result = {{"error", "unknown question '" + question + "'"}};
    }
    answer(result);
  }
}

std::vector<float> read_floats(const std::filesystem::path& file, std::int64_t count) {
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  const auto bytes = static_cast<std::int64_t>(stream.tellg());
  if (bytes != count * static_cast<std::int64_t>(sizeof(float))) {
    throw std::runtime_error(file.string() + " holds " + std::to_string(bytes) + " bytes, expected " +
                             std::to_string(count) + " float32 values");
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  stream.seekg(0).read(reinterpret_cast<char*>(values.data()), bytes);
  return values;
}

std::map<std::string, std::string> read_table(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  std::map<std::string, std::string> table;
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word, rest;
    if (!(words >> word)) continue;
    std::getline(words >> std::ws, rest);
    table[word] = rest;
  }
  return table;
}

Arguments::Arguments(int argc, char** argv, const std::vector<std::string>& known) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (std::find(known.begin(), known.end(), name) == known.end() || i + 1 == argc) {
      throw std::runtime_error("unknown option or missing value: " + name);
    }
    values_[name].push_back(argv[i + 1]);
  }
}

std::string Arguments::one(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::runtime_error(name + " is required");
  return found->second.back();
}

std::string Arguments::one_or(const std::string& name, const std::string& otherwise) const {
  return values_.contains(name) ? one(name) : otherwise;
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  return values_.contains(name) ? values_.at(name) : std::vector<std::string>{};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace peers
