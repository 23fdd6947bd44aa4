// The few JSON texts that columns hold, as plain C++ values.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::store {

std::string to_json(const std::map<std::string, std::string>& fields);
std::string to_json(std::span<const double> numbers);
std::string to_json(std::span<const std::string> texts);

/// Throw base::EnvironmentError where the text is not what the column is for (a damaged file).
std::map<std::string, std::string> fields_from_json(std::string_view text);
std::vector<double> numbers_from_json(std::string_view text);
std::vector<std::string> texts_from_json(std::string_view text);

}  // namespace fusetune::store
