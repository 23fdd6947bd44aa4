// What nobody claims a difference within.
#pragma once

namespace fusetune::base {

/// Times whose ratio is this close to 1 are tied whatever the statistics say: below what a timing can
/// support.
inline constexpr double kTieBand = 0.005;

}  // namespace fusetune::base
