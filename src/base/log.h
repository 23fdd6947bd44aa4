// Notes to the person at the terminal. Results go to stdout; this is stderr.
#pragma once

#include <string_view>

namespace fusetune::base {

/// True silences note() for the whole process.
void set_quiet(bool quiet);

/// Writes one line to stderr, whole even when several threads write. Never throws.
void note(std::string_view line);

}  // namespace fusetune::base
