// Access to the values of a canonical MaskSpec, for the files that implement masks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "block/mask.h"

namespace fusetune::block {

/// Throws base::UsageError "--mask MASK: reason".
[[noreturn]] void fail_mask(std::string_view mask, std::string_view reason);

/// A number that the spec's own check has accepted. Throws base::InternalError where it is none.
std::int64_t number_of(std::string_view text);

/// A whole-number parameter that the spec has.
std::int64_t value_of(const MaskSpec& spec, const std::string& name);

/// The text of the padding's `avg` or `lengths`, null where the spec has none. The pattern `padding` spells
/// them without the prefix `padding_`.
const std::string* find_length_parameter(const MaskSpec& spec, std::string_view which);

/// Digest of a mask file's content. Throws base::EnvironmentError where it cannot be read and
/// base::UsageError, before it reads the data, where it can be no mask.
std::string mask_file_digest(const std::string& path);

}  // namespace fusetune::block
