#include "store/json_text.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fusetune::store {
namespace {

template <typename Value>
Value from_json(std::string_view text, const char* what) {
  try {
    return nlohmann::json::parse(text).get<Value>();
  } catch (const nlohmann::json::exception& error) {
    throw base::EnvironmentError(std::string("reading ") + what +
                                 " from the tuning database: " + error.what() + "; run `fusetune db check`");
  }
}

/// Text from outside (a compiler's version line) may not be UTF-8: the odd byte is replaced, not fatal.
std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const std::map<std::string, std::string>& fields) { return dump(nlohmann::json(fields)); }

std::string to_json(std::span<const double> numbers) {
  return dump(nlohmann::json(std::vector<double>(numbers.begin(), numbers.end())));
}

std::string to_json(std::span<const std::string> texts) {
  return dump(nlohmann::json(std::vector<std::string>(texts.begin(), texts.end())));
}

std::map<std::string, std::string> fields_from_json(std::string_view text) {
  return from_json<std::map<std::string, std::string>>(text, "the fields of an environment");
}

std::vector<double> numbers_from_json(std::string_view text) {
  return from_json<std::vector<double>>(text, "the samples of a measurement");
}

std::vector<std::string> texts_from_json(std::string_view text) {
  return from_json<std::vector<std::string>>(text, "the schedules of a plan");
}

}  // namespace fusetune::store
