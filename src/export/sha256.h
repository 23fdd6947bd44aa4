// SHA-256 (FIPS 180-4), so that anybody can check a bundle with the sha256sum that every system has.
#pragma once

#include <string>
#include <string_view>

namespace fusetune::exporting {

/// 64 lower-case hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace fusetune::exporting
