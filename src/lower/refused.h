// A schedule that cannot run, and why: what a schedule space leaves out.
#pragma once

#include <string>

namespace fusetune::lower {

template <class Schedule>
struct Refused {
  Schedule schedule;
  std::string reason;  // of refuse()
};

}  // namespace fusetune::lower
