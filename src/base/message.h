// How messages between processes are told apart in a stream of bytes: each is four bytes of length,
// little-endian, and as many bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fusetune::base {

/// No message of ours comes near it: a larger length is garbage from a process that went wrong.
inline constexpr std::size_t kMaxMessage = std::size_t{1} << 30;

inline constexpr std::size_t kMessageHeaderSize = 4;

/// The bytes in front of a message of `size` bytes. Throws InternalError above kMaxMessage.
std::string message_header(std::size_t size);

/// The size of the message behind the kMessageHeaderSize bytes at `header`; may exceed kMaxMessage.
std::size_t message_size(const char* header);

/// No message can begin with these bytes.
bool is_garbage(std::string_view received);

/// Moves the first message out of `received`; false where it is not yet complete or is_garbage().
bool take_message(std::string& received, std::string& message);

}  // namespace fusetune::base
