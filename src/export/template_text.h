// Templates with named placeholders: "@name@_create" becomes "encoder_create".
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace fusetune::exporting {

using Values = std::map<std::string, std::string, std::less<>>;

/// Replaces every @word@ (letters, digits and underscores between two at signs) of `text` by its value.
/// Throws base::InternalError for a placeholder without a value. Names that were used are removed from
/// `unused` if given.
std::string fill_template(std::string_view text, const Values& values, Values* unused = nullptr);

}  // namespace fusetune::exporting
