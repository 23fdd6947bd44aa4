#include "base/message.h"

#include "base/error.h"

namespace fusetune::base {

std::string message_header(std::size_t size) {
  if (size > kMaxMessage) throw InternalError("a message to a worker of " + std::to_string(size) + " bytes");
  std::string bytes;
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((size >> shift) & 0xff);
  return bytes;
}

std::size_t message_size(const char* header) {
  std::size_t size = 0;
  for (unsigned i = 0; i < kMessageHeaderSize; ++i) {
    size |= static_cast<std::size_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  }
  return size;
}

bool is_garbage(std::string_view received) {
  return received.size() >= kMessageHeaderSize && message_size(received.data()) > kMaxMessage;
}

bool take_message(std::string& received, std::string& message) {
  if (received.size() < kMessageHeaderSize || is_garbage(received)) return false;
  const std::size_t size = message_size(received.data());
  if (received.size() - kMessageHeaderSize < size) return false;
  message.assign(received, kMessageHeaderSize, size);
  received.erase(0, kMessageHeaderSize + size);
  return true;
}

}  // namespace fusetune::base
