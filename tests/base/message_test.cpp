#include "base/message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/subprocess.h"
#include "base/unique_fd.h"

namespace fusetune::base {
namespace {

/// The reading end of a pipe that holds `bytes` and ends there.
UniqueFd pipe_with(std::string_view bytes) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd write(ends[1]);
  EXPECT_EQ(::write(write.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return UniqueFd(ends[0]);
}

TEST(Message, IsTakenWhenItIsComplete) {
  std::string received = message_header(3) + "ab", message;
  EXPECT_FALSE(take_message(received, message));
  received += "c" + message_header(0) + message_header(1);
  EXPECT_TRUE(take_message(received, message));
  EXPECT_EQ(message, "abc");
  EXPECT_TRUE(take_message(received, message));
  EXPECT_EQ(message, "");
  EXPECT_FALSE(take_message(received, message));
  EXPECT_EQ(received, message_header(1));
}

TEST(Message, LongerThanAnyIsGarbage) {
  std::string received = message_header(kMaxMessage), message;
  EXPECT_FALSE(is_garbage(received));
  ++received[0];
  EXPECT_TRUE(is_garbage(received));
  EXPECT_FALSE(take_message(received, message));
  EXPECT_FALSE(read_message(pipe_with(received).get(), message));
  EXPECT_FALSE(is_garbage(received.substr(0, 3)));
  EXPECT_THROW(message_header(kMaxMessage + 1), InternalError);
}

TEST(Message, IsReadFromAPipe) {
  const std::string long_one(30'000, 'x');  // a pipe holds 64 KiB
  std::string message;
  const UniqueFd pipe = pipe_with(message_header(long_one.size()) + long_one + message_header(0));
  EXPECT_TRUE(read_message(pipe.get(), message));
  EXPECT_EQ(message, long_one);
  EXPECT_TRUE(read_message(pipe.get(), message));
  EXPECT_EQ(message, "");
  EXPECT_FALSE(read_message(pipe.get(), message));
}

// A wrong length in front of nothing once cost a gigabyte.
TEST(Message, AWrongLengthCostsNoMemory) {
  std::string message;
  EXPECT_FALSE(read_message(pipe_with(message_header(kMaxMessage) + "abc").get(), message));
  EXPECT_LT(message.capacity(), std::size_t{16} << 20);
}

}  // namespace
}  // namespace fusetune::base
