// What a run's row says of its result, read with care: it may be an older version's, or anybody's.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::report {

using JsonPath = std::vector<const char*>;

/// Null for what is no JSON.
inline nlohmann::ordered_json parse_or_null(std::string_view text) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  return json.is_discarded() ? nlohmann::ordered_json() : json;
}

/// Null where an object on the way is none or has no such member.
inline nlohmann::ordered_json value_at(const nlohmann::ordered_json& json, const JsonPath& path) {
  const nlohmann::ordered_json* place = &json;
  for (const char* const key : path) {
    if (!place->is_object() || !place->contains(key)) return {};
    place = &place->at(key);
  }
  return *place;
}

inline std::optional<double> number_at(const nlohmann::ordered_json& json, const JsonPath& path) {
  const auto value = value_at(json, path);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

inline std::optional<std::string> text_at(const nlohmann::ordered_json& json, const JsonPath& path) {
  const auto value = value_at(json, path);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

/// Those elements of an array that are numbers.
inline std::vector<double> numbers_at(const nlohmann::ordered_json& json, const JsonPath& path) {
  std::vector<double> numbers;
  const auto array = value_at(json, path);
  if (!array.is_array()) return numbers;
  for (const auto& element : array)
    if (element.is_number()) numbers.push_back(element.get<double>());
  return numbers;
}

/// Those that are texts.
inline std::vector<std::string> texts_at(const nlohmann::ordered_json& json, const JsonPath& path) {
  std::vector<std::string> texts;
  const auto array = value_at(json, path);
  if (!array.is_array()) return texts;
  for (const auto& element : array)
    if (element.is_string()) texts.push_back(element.get<std::string>());
  return texts;
}

}  // namespace fusetune::report
