// Names a process so that another one can tell later whether it still lives.
#pragma once

#include <string>
#include <string_view>

namespace fusetune::store {

/// "boot/pid namespace/pid/start time" of this process: never equal for two processes, even where a pid
/// was used again or the machine was restarted.
std::string this_process();

enum class Life {
  alive,
  dead,
  unknown,  // another machine, boot or container: cannot be looked up from here
};
Life life_of(std::string_view process);

}  // namespace fusetune::store
